package exec

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// residency is what of a pack is in memory, and how the rest passes through it. A
// plan decides, and another plan may take its place while the model is in use.
type residency struct {
	w      *weights
	file   *pack.File
	budget *tiering.Budget
	user   prefetch.User // the model
	layers int
	mapped bool // some weights are used where they lie in the file
	// mapFirst: those move to memory of their own once a pass has used them, and
	// settling: that goes on.
	mapFirst, settling, used bool
	plan                     *tiering.Plan // that is followed

	sections []layout     // the layers in order, and the ends
	unit     int          // the largest that a matrix can be cut into
	experts  *expertCache // nil: the model has none
	ring     *tiering.Frame
	stream   *prefetch.Stream // nil until something is streamed
	idle     bool             // the stream has no ring: there was no memory for one
	joint
}

// check refuses a plan that was made for another model.
func (r *residency) check(plan *tiering.Plan) error {
	if len(plan.Pinned) != r.layers {
		return fmt.Errorf("exec: a plan for %d layers does not suit a model of %d", len(plan.Pinned), r.layers)
	}
	for i := range r.w.layers {
		if len(r.w.layers[i].experts) > 0 && plan.ExpertSlots < 1 {
			return fmt.Errorf("%w: the plan has no memory for any expert", tiering.ErrBudget)
		}
	}
	return nil
}

// keep takes over the sections that were loaded.
func (r *residency) keep(loaded []layout) {
	r.sections = make([]layout, r.layers+1)
	for _, l := range loaded {
		r.mapped = r.mapped || l.mapped
		if l.sectionSize == 0 || l.kind == expertLayout {
			continue
		}
		r.sections[l.layer] = l
		for i := range l.places {
			_, unit := l.places[i].unit()
			r.unit = max(r.unit, unit)
		}
	}
}

// sequence returns what has to be streamed; ok is false if nothing has.
func (r *residency) sequence() (seq prefetch.Sequence, ok bool) {
	for i := range r.sections {
		l := &r.sections[i]
		run := prefetch.Run{From: l.section, Off: int64(l.from), Size: int64(max(0, l.used()-l.from))}
		ok = ok || run.Size > 0
		if l.kind == endsLayout {
			seq.Tail = []prefetch.Run{run}
		} else {
			seq.Body = append(seq.Body, run)
		}
	}
	return seq, ok
}

// used returns where the last matrix of the section ends, with the block of the
// pack that it ends in. Vectors that lie behind it are in memory for good.
func (l *layout) used() int {
	end := 0
	for i := range l.places {
		end = max(end, l.places[i].off+l.places[i].bytes())
	}
	return min((end+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes, l.sectionSize)
}

// KeepsFiles reports whether the files that the model was loaded from are read
// while it is in use, and have to stay open as long.
func (m *Model) KeepsFiles() bool { return m.parts != nil }

// start begins to read what is not in memory, through a ring as the plan says.
func (r *residency) start(plan *tiering.Plan) error {
	r.plan = plan
	seq, ok := r.sequence()
	r.idle = ok // until there is a ring
	if !ok {
		return nil
	}
	piece, size := int(plan.Piece), int(plan.Ring)
	if size == 0 { // all will be in memory, but is not yet
		piece = tiering.DefaultPiece
		size = 4*piece + r.unit
	}
	slots := size / max(1, piece)
	if piece <= 0 || (slots-1)*piece < r.unit {
		return fmt.Errorf("exec: a ring of %d bytes in pieces of %d is too small for units of %d", plan.Ring, piece, r.unit)
	}
	frame, err := tiering.AllocForReads(r.budget, tiering.Ring, slots*piece+max(r.unit, r.page))
	if err != nil {
		return err
	}
	r.ring, r.idle = frame, false
	ring := prefetch.Ring{Memory: frame.Bytes(), Piece: piece, Slots: slots}
	r.forget(ring)
	if r.stream == nil {
		r.stream = prefetch.NewStream(r.user, ring, seq)
	} else {
		r.stream.Reconfigure(ring, seq)
	}
	return nil
}

// stop ends all reading and frees the ring.
func (r *residency) stop() {
	if r.experts != nil {
		r.experts.quiet()
	}
	if r.stream != nil {
		r.stream.Reconfigure(prefetch.Ring{}, prefetch.Sequence{})
	}
	r.forget(prefetch.Ring{})
	if r.ring != nil {
		r.ring.Free()
		r.ring = nil
	}
}

// close ends all reading and gives the ring back.
func (r *residency) close() {
	if r.stream != nil {
		r.stream.Close()
	}
	if r.ring != nil {
		r.ring.Free()
	}
}

// shrink gives back what a plan does not keep of any section, and of the experts.
func (r *residency) shrink(plan *tiering.Plan) error {
	if r.experts != nil && plan.ExpertSlots < r.experts.slots() {
		if err := r.experts.resize(plan.ExpertSlots); err != nil {
			return err
		}
	}
	for i := range r.sections {
		l := &r.sections[i]
		if pinned := r.pinned(plan, l); pinned < int64(l.from) {
			if err := r.resize(l, pinned); err != nil {
				return err
			}
		}
	}
	return nil
}

// pinned returns how much a plan keeps of a section.
func (r *residency) pinned(plan *tiering.Plan, l *layout) int64 {
	if l.kind == endsLayout {
		return plan.HeadPinned
	}
	return plan.Pinned[l.layer]
}

// resize keeps more or less of a section. What is added is not read yet.
func (r *residency) resize(l *layout, pinned int64) error {
	l.cut(pinned)
	if err := l.frame.Resize(l.size); err != nil {
		return err
	}
	return r.attach(l)
}

// grow reads what a plan keeps more of a section, or checks it where it lies.
func (r *residency) grow(ctx context.Context, l *layout, pinned int64) error {
	before := l.from
	if l.keeps(pinned) <= before {
		return nil
	}
	if err := r.resize(l, pinned); err != nil {
		_ = r.resize(l, int64(before)) // as it was: giving back is never refused
		return err
	}
	var err error
	if l.mapped {
		err = l.check(ctx, r.file, before, l.size, func(int) {})
	} else {
		queue := prefetch.New(loadReaders)
		defer queue.Close()
		err = queue.Submit(ctx, prefetch.Request{
			From: l.section, Off: int64(before), Dst: l.frame.Bytes()[before:], Piece: sectionPiece,
		}).Wait(ctx)
	}
	if err != nil {
		if back := r.resize(l, int64(before)); back != nil {
			return back
		}
	}
	return err
}
