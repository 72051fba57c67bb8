package weights

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// convertTime is the duration of the measurement of a conversion.
const convertTime = 100 * time.Millisecond

// MeasureConversion measures how fast a number of threads convert weights, in GB/s, without the
// time for which they wait for the disk where the system tells it. It returns 0 if a pack stores
// all of them, and an error that wraps tiering.ErrBudget if the ledger refuses the memory.
func MeasureConversion(ctx context.Context, ts *modelfile.TensorSet, spec *arch.Spec, exact bool, threads int, ledger *tiering.Budget) (gbs float64, err error) {
	ld := &Loader{Tensors: ts, Spec: spec, Budget: ledger, Exact: exact}
	defer ld.Free()
	layouts, err := ld.PlanAll(&Weights{Layers: make([]LayerWeights, len(spec.Layers))})
	if err != nil {
		return 0, err
	}
	for i := range layouts {
		ld.findSection(&layouts[i])
	}
	if err := ld.convertSections(layouts); err != nil {
		return 0, err
	}
	var sections []*conversion
	for i := range layouts {
		if c, ok := layouts[i].section.(*conversion); ok && c.size > 0 && layouts[i].Kind != EmbeddingLayout && layouts[i].Kind != TableLayout {
			sections = append(sections, c)
		}
	}
	if len(sections) == 0 {
		return 0, nil
	}
	pieces, err := tiering.Alloc(ledger, tiering.Pinned, converters*tiering.DefaultPiece)
	if err != nil {
		return 0, err
	}
	defer pieces.Free()
	return timeConversions(ctx, sections, pieces.Bytes(), max(1, threads))
}

// timeConversions converts pieces of all sections in turn for convertTime, as many at a time as
// a stream, and returns the speed of a number of threads in GB/s.
func timeConversions(ctx context.Context, sections []*conversion, memory []byte, threads int) (gbs float64, err error) {
	var (
		next, bytes atomic.Int64
		wait        sync.WaitGroup
		errs        [converters]error
	)
	began, computed := time.Now(), tiering.ProcessorTime()
	for i := range errs {
		piece := memory[i*tiering.DefaultPiece:][:tiering.DefaultPiece]
		wait.Go(func() {
			for errs[i] == nil && time.Since(began) < convertTime {
				n := int(next.Add(1) - 1)
				c := sections[n%len(sections)]
				at := n / len(sections) * len(piece) % c.size
				part := piece[:min(len(piece), c.size-at)]
				if _, errs[i] = c.ReadAt(part, int64(at)); errs[i] == nil {
					errs[i] = ctx.Err()
				}
				bytes.Add(int64(len(part)))
			}
		})
	}
	wait.Wait()
	elapsed := time.Since(began).Seconds()
	if used := (tiering.ProcessorTime() - computed).Seconds(); used > 0 {
		elapsed = min(elapsed, used/float64(threads))
	}
	return float64(bytes.Load()) / elapsed / 1e9, errors.Join(errs[:]...)
}
