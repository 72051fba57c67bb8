package exec

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// maxRepairs limits how often an Extend repeats passes because weights were damaged. A file that is
// overwritten all the time must not cause an endless loop.
const maxRepairs = 3

// repairs reports whether a batch that failed with err can be repeated, because the owner of the
// model has arranged that damaged weights are rebuilt. done counts such batches.
func repairs(ctx context.Context, m *Model, err error, done *int) bool {
	if m.repair == nil || *done == maxRepairs || ctx.Err() != nil || errors.Is(err, pack.ErrNotRebuilt) {
		return false
	}
	*done++
	return m.repair(ctx, err)
}

// RebuildFrom makes the model rebuild damaged weights of its pack from the files that the pack
// was made of, which the caller keeps open as long as the model. Weights that are used in the
// mapped file and do not match their checksums are read again. It waits for the running pass.
// After an error it can be called again, by one goroutine at a time.
func RebuildFrom(ctx context.Context, m *Model, source *modelfile.Files) error {
	r := m.residency
	var memory *tiering.Frame
	if !r.File.Rebuilds() {
		var err error
		if memory, err = r.RebuildFrom(source); err != nil {
			return err
		}
	}
	err := m.betweenPasses(nil, func() error {
		if memory != nil {
			m.frames = append(m.frames, memory)
		}
		return r.ReplaceDamaged(ctx, m.frames)
	})
	if memory != nil && errors.Is(err, ErrClosed) {
		memory.Free()
	}
	return err
}

// RebuildBound bounds the memory that RebuildFrom will allocate for a model of a shape.
func RebuildBound(s *tiering.Shape) int64 { return weights.RebuildBound(s) }

// RebuildBytes returns the memory that RebuildFrom allocates.
func RebuildBytes(m *Model) int64 {
	if m.residency == nil {
		return 0
	}
	return m.residency.RebuildBytes()
}
