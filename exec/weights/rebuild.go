package weights

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// A pack in a cache can be damaged while the files that it was made of are sound. A rebuilder
// converts the damaged blocks of all sections from these files, with the code that imports them.

// rebuilder makes blocks of the sections of a pack.
type rebuilder struct {
	frame    *tiering.Frame
	sections map[int]*conversion // by the number of the section
}

// newRebuilder plans the sections of a pack over the model that it was made of.
func newRebuilder(file *pack.File, source *modelfile.Files, budget *tiering.Budget) (*rebuilder, error) {
	spec, err := source.Spec()
	if err != nil {
		return nil, err
	}
	ld := &Loader{Tensors: source.TensorSet(), Spec: spec, Budget: budget}
	layouts, err := ld.PlanAll(&Weights{Layers: make([]LayerWeights, len(spec.Layers))})
	if err != nil {
		return nil, err
	}
	r := &rebuilder{sections: map[int]*conversion{}}
	for i := range layouts {
		l := &layouts[i]
		if !l.locate(file) {
			return nil, fmt.Errorf("%s has other tensors than the pack %s", source.Path, file.Path())
		}
		r.sections[l.index] = &conversion{ld: ld, name: l.Name, places: l.Places, size: int(file.SectionSize(l.index))}
	}
	var plan convertPlan
	plan.add(layouts)
	if r.frame, err = tiering.Alloc(budget, tiering.Pinned, rebuildMemory(plan.unit)); err != nil {
		return nil, err
	}
	ld.convert = &convertMemory{free: make(chan []byte, 1), unit: plan.unit}
	ld.convert.free <- r.frame.Bytes()
	return r, nil
}

// rebuildRows is roughly how many bytes of rows are read before they are packed. A budget near the
// minimum has no room for as many as a conversion of all weights reads.
const rebuildRows = 128 << 10

// rebuildMemory returns the memory of a converter for tiles of up to unit bytes.
func rebuildMemory(unit int) int { return unit + max(unit, rebuildRows) }

// RebuildBound bounds the memory that RebuildFrom will allocate for a model of a shape, without its
// layouts: those of experts and of an embedding on flash have other units.
func RebuildBound(s *tiering.Shape) int64 {
	unit := max(s.Unit, tiled.TileRows*s.RowBytes)
	if s.Experts > 0 {
		unit *= 2
	}
	return int64(rebuildMemory(int(unit)) + os.Getpagesize())
}

// RebuildBytes returns a bound of the memory that RebuildFrom allocates.
func (r *Residency) RebuildBytes() int64 {
	plan := convertPlan{unit: r.MaxUnit}
	if c := r.Experts; c != nil {
		for i := range c.experts {
			for _, x := range c.experts[i].matrices {
				if x.m != nil {
					_, unit := x.m.Unit()
					plan.unit = max(plan.unit, unit)
				}
			}
		}
	}
	return int64(rebuildMemory(plan.unit) + os.Getpagesize())
}

// rebuild implements pack.Rebuild.
func (r *rebuilder) rebuild(section int, off int64, block []byte) error {
	_, err := r.sections[section].ReadAt(block, off)
	return err
}

// convertVector fills dst with the elements of a vector as float32, from byte at on.
func (ld *Loader) convertVector(s *modelfile.TensorSlice, dst []byte, at int) error {
	raw := make([]byte, s.Bytes())
	if err := ld.readBytes(s, 0, raw); err != nil {
		return err
	}
	floats := make([]float32, s.Rows*s.Cols)
	quant.DequantRow(s.Type, floats, raw)
	copy(dst, modelfile.AppendFloats(nil, floats)[at:])
	return nil
}

// RebuildFrom makes later reads of the pack rebuild damaged blocks from the files that it was
// made of, which the caller keeps open as long as the model. The caller frees the memory after the
// last read. RebuildFrom changes nothing if it fails.
func (r *Residency) RebuildFrom(source *modelfile.Files) (memory *tiering.Frame, err error) {
	b, err := newRebuilder(r.File, source, r.budget)
	if err != nil {
		return nil, err
	}
	r.File.RebuildWith(b.rebuild)
	return b.frame, nil
}

// ReplaceDamaged reads the weights again that are used in the mapped file, and those that were
// promoted from it, if they do not match their checksums. They are in anonymous memory then.
// frames are those of the model. After an error ScanMapped fails until ReplaceDamaged succeeds.
func (r *Residency) ReplaceDamaged(ctx context.Context, frames []*tiering.Frame) error {
	again := r.damaged != nil
	r.damaged = nil
	for i := range r.Sections {
		l := &r.Sections[i]
		if l.Mapped {
			old := l.Frame
			r.damaged = r.replaceMapped(ctx, l)
			frames[slices.Index(frames, old)] = l.Frame
		} else if again && l.stored() {
			r.damaged = r.read(l, l.Frame.Bytes()[:l.Size], 0)
		}
		if r.damaged != nil {
			return r.damaged
		}
	}
	r.Mapped = slices.ContainsFunc(r.Sections, func(l Layout) bool { return l.Mapped })
	return nil
}

// read reads bytes of a section that somebody waits for.
func (r *Residency) read(l *Layout, dst []byte, off int) error {
	grant, _ := r.Threads.Scheduler.Admit(prefetch.Awaited, len(dst))
	defer r.Threads.Scheduler.Done(grant)
	_, err := l.section.ReadAt(dst, int64(off))
	return err
}

// replaceMapped copies a mapped section to anonymous memory if a block is damaged.
func (r *Residency) replaceMapped(ctx context.Context, l *Layout) error {
	damage := r.verifyMapping(ctx, l, 0)
	if damage == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.copyMapped(l); err != nil {
		return fmt.Errorf("%w; %w", damage, err)
	}
	return nil
}

// copyMapped replaces the mapping of a section by anonymous memory with its bytes.
func (r *Residency) copyMapped(l *Layout) error {
	var failed error
	at := 0
	err := r.moveMapped(l, func(dst, _ []byte) {
		if failed == nil {
			failed = r.read(l, dst, at)
		}
		at += len(dst)
	})
	if err != nil {
		return err
	}
	return failed
}
