package exec

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/tiering"
)

// MeasureConversion measures how fast weights that no pack stores are converted, in GB/s; 0 if
// a pack stores all of them, or if the ledger has no room for the measurement.
func MeasureConversion(ctx context.Context, f *modelfile.Files, o ShapeOptions, ledger *tiering.Budget) (float64, error) {
	spec, err := f.Spec()
	if err != nil {
		return 0, err
	}
	ts, err := f.TensorsFor(o.Exact)
	if err != nil {
		return 0, err
	}
	gbs, err := weights.MeasureConversion(ctx, ts, spec, o.Exact, o.Threads, ledger)
	if errors.Is(err, tiering.ErrBudget) {
		return 0, nil
	}
	return gbs, err
}
