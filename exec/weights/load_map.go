package weights

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// frameFor returns memory for a layout: a mapping of the file if pinFile is set, otherwise
// anonymous memory.
func (ld *Loader) frameFor(l *Layout) (*tiering.Frame, error) {
	if ld.pinFile && ld.Residency != nil && l.section != nil && l.Kind != expertLayout {
		m, err := ld.Residency.File.MapSection(l.index)
		if err != nil {
			return nil, err
		}
		l.Mapped = true
		frame, err := tiering.Adopt(ld.Budget, tiering.Mapped, m.Bytes(), l.Size, func() { _ = m.Close() })
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		l.mapping = m.Bytes()
		return frame, nil
	}
	// A later plan may pin more of the section.
	return tiering.AllocRoom(ld.Budget, tiering.Pinned, l.Size, l.SectionSize)
}

// useMapping verifies the block checksums of a mapping and points the weights into it.
func (ld *Loader) useMapping(ctx context.Context, l *Layout) error {
	if err := l.verifyMapping(ctx, ld.Residency.File, 0, l.Size, ld.AddRead); err != nil {
		return err
	}
	return l.attach(l.Frame.Bytes())
}

// verifyPiece is how many bytes of a mapping one goroutine verifies at a time.
const verifyPiece = 16 * pack.BlockBytes

// verifyMapping reads a range of a mapped section, which brings it into memory, and
// verifies its block checksums.
func (l *Layout) verifyMapping(ctx context.Context, file *pack.File, from, to int, arrived func(n int)) error {
	var wg sync.WaitGroup
	errs := make([]error, loadReaders)
	for i := range errs {
		wg.Go(func() {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if fault := FaultOf(recover()); fault != nil {
					errs[i] = fmt.Errorf("%s: %w", l.Name, fault)
				}
			}()
			first := from/verifyPiece*verifyPiece + i*verifyPiece
			for at := first; at < to && errs[i] == nil; at += loadReaders * verifyPiece {
				if errs[i] = ctx.Err(); errs[i] == nil {
					lo, hi := max(at, from), min(at+verifyPiece, to)
					errs[i] = file.CheckSection(l.index, l.mapping, int64(lo), int64(hi))
					arrived(hi - lo)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// FaultOf returns the error for a recovered page fault in a mapping, whose file has become
// shorter. It returns nil if there was no panic, and panics again for any other reason.
func FaultOf(reason any) error {
	if reason == nil {
		return nil
	}
	if err, ok := reason.(error); ok {
		var fault interface{ Addr() uintptr }
		if errors.As(err, &fault) {
			return fmt.Errorf("%w: the file has become shorter while it was in use", store.ErrTruncated)
		}
	}
	panic(reason)
}
