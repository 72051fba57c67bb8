package llmrun

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// repair is what an engine holds after its pack from the cache turned out to be damaged during a
// pass. The pack stays open: its sound blocks are still read from it, and damaged ones are
// converted from the model's own files.
type repair struct {
	mu      sync.Mutex
	source  *modelfile.Files // the model's own files; nil: no damage was found
	room    *promptRoom      // memory of their headers
	refused error            // why the last repair failed
	// reported: the user knows of the damage, and the pack is no longer in the cache.
	reported bool
}

// rebuildHeap and rebuildPerTensor bound the heap that rebuilding damaged blocks takes beside the
// headers: buffers of blocks and vectors, and the places of all tensors.
const (
	rebuildHeap      = 256 << 10
	rebuildPerTensor = 1 << 10
)

// repairHeap returns the heap that rebuilding takes beside the headers.
func repairHeap(spec *arch.Spec) int64 {
	return rebuildHeap + rebuildPerTensor*modelfile.MostTensors(spec)
}

// repairMemory bounds the memory of the repair of a model's pack in a cache. f are the model's own
// files, or the pack. The smallest budget of the model has room for it.
func repairMemory(f *modelfile.Files, spec *arch.Spec, s *tiering.Shape) int64 {
	return repairHeap(spec) + f.SourceMemory(spec) + exec.RebuildBound(s)
}

// setRepair sets the memory that budgets must leave for a repair.
func (m *memory) setRepair(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repair = bytes
}

// repairPack lets passes go on after one found damage in the engine's pack. It removes the pack
// from the cache, so that the next run imports the model again, and reports that once. It
// returns false if the pack does not come from a cache, or if the model's own files or the
// budget do not permit it.
func (e *Engine) repairPack(ctx context.Context, damage error) bool {
	if !e.ownsPack(damage) {
		return false
	}
	r := &e.repair
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source == nil {
		if r.refused = r.open(e); r.refused != nil {
			return false
		}
	}
	if r.refused = r.rebuild(ctx, e); r.refused != nil {
		return false
	}
	if !r.reported {
		r.reported = true
		e.reportRepair(damage)
	}
	return true
}

// openAgain opens a model again if loading it failed because its pack in the cache is damaged. It
// removes the pack and imports the model again. If that is of no use either, it opens the
// model's own files.
func (o *Options) openAgain(ctx context.Context, f *modelfile.Files, path string, damage error) (e *Engine, err error) {
	if !f.Cached() || !errors.Is(damage, store.ErrFormat) {
		return nil, damage
	}
	_, _ = f.DiscardCached() // what cannot be removed is replaced
	if o.Notify != nil {
		o.Notify(fmt.Sprintf("a pack was damaged and has been removed: %v", damage))
	}
	if inFile(damage, f.Packed().Path()) { // not for a malformed tokenizer, which the next pack would hold too
		o.reopen()
		o.importRefused, o.damaged = false, f.Packed()
		again, err := o.openCached(ctx, path, false)
		if err != nil {
			return nil, err
		}
		e, err := o.openEngine(ctx, again, path)
		if err == nil || ctx.Err() != nil || !inFile(err, f.Packed().Path()) {
			return e, err
		}
		_, _ = again.DiscardCached()
	}
	o.reopen()
	o.importRefused = true
	direct, err := o.openDirect(path)
	if err != nil {
		return nil, err
	}
	return openFiles(ctx, direct, *o)
}

// inFile reports whether an error is about the content of a file.
func inFile(err error, path string) bool {
	var damage *store.FormatError
	return errors.As(err, &damage) && damage.Path == path
}

// errOtherWeights returns the error for a model whose damaged pack cannot be made again.
func errOtherWeights(path string) error {
	return &store.FormatError{
		Path: path, Off: store.NoOffset, Reason: "the file holds other weights than when it was imported, although its size and its times have not changed",
		Hint: "get the model again", Kind: store.ErrFormat,
	}
}

// ownsPack reports whether an error is about the engine's pack, and the pack is in a cache.
func (e *Engine) ownsPack(damage error) bool {
	return e.files != nil && e.files.Cached() && inFile(damage, e.files.Packed().Path())
}

// open opens the model's own files, and reserves their memory.
func (r *repair) open(e *Engine) error {
	r.room = &promptRoom{engine: e}
	e.mem.setRepair(0) // it is reserved now
	err := r.room.reserveLasting("reading the model's own files takes", repairHeap(e.model.Spec), exec.RebuildBytes(e.model))
	if err == nil {
		r.source, err = e.files.OpenSource(&roomMeter{room: r.room})
	}
	if err != nil {
		r.room.release()
		r.room = nil
	}
	return err
}

// rebuild makes the model read damaged weights from its own files. If the budget has no room to
// replace mapped weights, it makes some.
func (r *repair) rebuild(ctx context.Context, e *Engine) error {
	err := exec.RebuildFrom(ctx, e.model, r.source)
	var refused *tiering.BudgetError
	if !errors.As(err, &refused) || ctx.Err() != nil {
		return err
	}
	e.mem.mu.Lock()
	failed := r.room.replan(refused.Requested)
	e.mem.mu.Unlock()
	if failed != nil {
		return failed
	}
	return exec.RebuildFrom(ctx, e.model, r.source)
}

// reportRepair removes the damaged pack from the cache and tells the user.
func (e *Engine) reportRepair(damage error) {
	what := "has been removed"
	if _, err := e.files.DiscardCached(); err != nil {
		what = fmt.Sprintf("could not be removed (%v)", err)
	}
	if e.notify != nil {
		e.notify(fmt.Sprintf("a pack was damaged and %s; damaged weights are read from %s: %v", what, e.repair.source.Path, damage))
	}
}

// close closes the model's own files.
func (r *repair) close() (err error) {
	if r.source != nil {
		err = r.source.Close()
		r.source = nil
	}
	r.room.release()
	r.room = nil
	return err
}

// roomMeter is the vfs.Meter of the headers that a repair opens. It reserves memory in large steps,
// because each changes the plan. What readers release stays reserved until the engine is closed.
type roomMeter struct {
	room           *promptRoom
	held, reserved int64
}

// roomStep is the least memory that roomMeter reserves.
const roomStep = 256 << 10

// Reserve implements vfs.Meter.
func (m *roomMeter) Reserve(bytes int64) error {
	if more := m.held + bytes - m.reserved; more > 0 {
		more = max(more, roomStep)
		if err := m.room.reserveLasting("the headers of the model's own files take", more, 0); err != nil {
			return err
		}
		m.reserved += more
	}
	m.held += bytes
	return nil
}

// Release implements vfs.Meter.
func (m *roomMeter) Release(bytes int64) { m.held -= bytes }

// Held implements vfs.Meter.
func (m *roomMeter) Held() int64 { return m.held }

// discardDamagedPack removes the engine's pack from the cache if err reports that it is
// damaged and was not repaired, so that the model is imported again when it is next opened. It
// returns err.
func (e *Engine) discardDamagedPack(err error) error {
	if err == nil || errors.Is(err, pack.ErrNotRebuilt) || !e.ownsPack(err) {
		return err
	}
	_, _ = e.files.DiscardCached() // what cannot be removed is removed when it is next opened
	e.repair.mu.Lock()
	defer e.repair.mu.Unlock()
	if e.repair.refused != nil {
		err = fmt.Errorf("%w; the model's own files could not be read instead: %s", err, e.repair.refused.Error())
	}
	return fmt.Errorf("%w; the damaged pack was removed from the cache: open the model again", err)
}
