package llmrun

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
)

// Mix is a named way to round weights, for [Options].Quantize.
type Mix struct {
	Name  string
	About string // what becomes of the weights, for people
}

// Mixes lists the ways to round weights, the most exact first.
func Mixes() []Mix {
	var list []Mix
	for _, m := range modelfile.Mixes() {
		list = append(list, Mix{m.Name, m.About})
	}
	return list
}

// quantize rounds the weights as an import asks for.
func (o *ImportOptions) quantize(ctx context.Context, f *modelfile.Files) error {
	if o.Quantize == "" {
		if o.Calibrate != "" {
			return fmt.Errorf("%w: Calibrate chooses how weights are rounded, and Quantize does not ask for that", ErrOptions)
		}
		return nil
	}
	importance, err := o.importance(ctx, f)
	if err != nil {
		return err
	}
	return f.Quantize(o.Quantize, importance)
}

// importance reads the text to calibrate with, if there is one.
func (o *ImportOptions) importance(ctx context.Context, f *modelfile.Files) (modelfile.Importance, error) {
	mix, err := modelfile.MixNamed(o.Quantize)
	switch {
	case err != nil:
		return nil, err
	case o.Calibrate == "":
		return nil, nil
	case !mix.FourBits():
		return nil, fmt.Errorf("%w: Calibrate: %s has no weights of 4 bits, which alone gain by it", ErrOptions, o.Quantize)
	}
	ids, err := textTokens(f, o.Calibrate)
	if err != nil {
		return nil, err
	}
	return exec.Calibrate(ctx, f, ids, exec.Options{Exact: true}, progressFunc(o.CalibrateProgress))
}
