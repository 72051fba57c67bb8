package llmrun

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
)

// Mix is a named choice of quantized types for [Options].Quantize.
type Mix struct {
	Name  string
	About string // description for users
}

// Mixes lists the quantization mixes, the most accurate first.
func Mixes() []Mix {
	var list []Mix
	for _, m := range modelfile.Mixes() {
		list = append(list, Mix{m.Name, m.About})
	}
	return list
}

// quantize quantizes the weights as the options of the import require.
func (o *ImportOptions) quantize(ctx context.Context, f *modelfile.Files) error {
	if o.Quantize == "" {
		if _, measures := o.nestedShare(); o.Calibrate != "" && !measures {
			return fmt.Errorf("%w: Calibrate needs Quantize, or Nested as a percentage", ErrOptions)
		}
		return nil
	}
	importance, err := o.importance(ctx, f)
	if err != nil {
		return err
	}
	return f.Quantize(o.Quantize, importance)
}

// importance measures the importance of weights on the calibration text, if there is one.
func (o *ImportOptions) importance(ctx context.Context, f *modelfile.Files) (modelfile.Importance, error) {
	mix, err := modelfile.MixNamed(o.Quantize)
	_, measures := o.nestedShare()
	switch {
	case err != nil:
		return nil, err
	case o.Calibrate == "" || measures && !mix.FourBits():
		return nil, nil
	case !mix.FourBits():
		return nil, fmt.Errorf("%w: Calibrate needs a Quantize with 4-bit weights; it is %s", ErrOptions, o.Quantize)
	}
	ids, err := textTokens(f, o.Calibrate)
	if err != nil {
		return nil, err
	}
	return exec.Calibrate(ctx, f, ids, exec.Options{Exact: true}, progressFunc(o.CalibrateProgress))
}
