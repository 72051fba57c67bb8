package solve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
)

// Record is what a Profiler knows of one device, to be kept for the next time.
type Record struct {
	Start *time.Duration `json:"start_ns,omitempty"`
	Copy  *time.Duration `json:"copy_ns,omitempty"`
	Times []Timing       `json:"times"`
}

// Timing is what a product was measured to take.
type Timing struct {
	Shape
	Alone  time.Duration `json:"alone_ns"`  // on an idle device
	Steady time.Duration `json:"steady_ns"` // behind others
}

// Shape is a product without its weights.
type Shape struct {
	Type     string `json:"type"`
	Tokens   int    `json:"tokens"`
	Rows     int    `json:"rows"`
	Cols     int    `json:"cols"`
	Streamed bool   `json:"streamed"`
}

// Slowdown is what working at the same time was measured to cost two devices.
type Slowdown struct {
	Shape
	Times float64 `json:"times"`
}

// ErrRecord is the error of a record that cannot be true.
var ErrRecord = errors.New("solve: a record that no measurement gives")

// ShapeOf returns the shape of a product.
func ShapeOf(op hetero.Op) Shape {
	return Shape{op.Type.String(), op.Tokens, op.Rows, op.Cols, op.Streamed}
}

func (k matmulKey) shape() Shape { return Shape{k.typ.String(), k.tokens, k.rows, k.cols, k.streamed} }

// Op returns the product, without weights.
func (s *Shape) Op() (hetero.Op, error) {
	t, known := quant.ParseType(s.Type)
	if !known || s.Tokens < 1 || s.Rows < 1 || s.Cols < 1 {
		return hetero.Op{}, fmt.Errorf("%w: a product of %d × %d × %d in %q", ErrRecord, s.Tokens, s.Rows, s.Cols, s.Type)
	}
	return hetero.Op{Type: t, Tokens: s.Tokens, Rows: s.Rows, Cols: s.Cols, Streamed: s.Streamed}, nil
}

// op returns the product, unless it cannot take what the timing says.
func (t *Timing) op() (hetero.Op, error) {
	if !Credible(t.Steady) || !Credible(t.Alone) {
		return hetero.Op{}, fmt.Errorf("%w: %v and %v for a product", ErrRecord, t.Alone, t.Steady)
	}
	return t.Op()
}

// op returns the product, unless it cannot be slowed down so.
func (s *Slowdown) op() (hetero.Op, error) {
	if !(s.Times >= 1 && s.Times < 1e6) {
		return hetero.Op{}, fmt.Errorf("%w: %g times slower", ErrRecord, s.Times)
	}
	return s.Op()
}

// Credible reports whether a product can have taken so long.
func Credible(took time.Duration) bool { return took > 0 && took < never }

// plausible reports whether something can have taken so long, which may be nothing.
func plausible(took *time.Duration) bool { return took != nil && *took >= 0 && *took < never }

// Record returns what was measured on a device.
func (p *Profiler) Record(device int) Record {
	r := Record{Times: []Timing{}}
	if start, known := p.start[device]; known {
		r.Start = &start
	}
	if took, known := p.copies[device]; known {
		r.Copy = &took
	}
	for key, a := range p.times {
		if key.device == device {
			r.Times = append(r.Times, Timing{key.shape(), a.alone, a.steady})
		}
	}
	slices.SortFunc(r.Times, func(a, b Timing) int { return a.compare(&b.Shape) })
	return r
}

// compare orders shapes, so that the same measurements make the same file.
func (s *Shape) compare(t *Shape) int {
	return cmp.Or(strings.Compare(s.Type, t.Type), s.Tokens-t.Tokens, s.Cols-t.Cols, s.Rows-t.Rows, strings.Compare(fmt.Sprint(s.Streamed), fmt.Sprint(t.Streamed)))
}

// Restore takes over what was measured on a device before.
func (p *Profiler) Restore(device int, r Record) error {
	for _, t := range r.Times {
		op, err := t.op()
		if err != nil {
			return err
		}
		p.times[keyOf(device, op)] = measured{t.Alone, t.Steady}
	}
	for _, known := range []struct {
		took *time.Duration
		to   map[int]time.Duration
	}{{r.Start, p.start}, {r.Copy, p.copies}} {
		if known.took == nil {
			continue
		}
		if !plausible(known.took) {
			return fmt.Errorf("%w: %v", ErrRecord, *known.took)
		}
		known.to[device] = *known.took
	}
	return nil
}

// Slowdowns returns what was measured of all devices together.
func (p *Profiler) Slowdowns() []Slowdown {
	list := []Slowdown{}
	for key, times := range p.slow {
		list = append(list, Slowdown{key.shape(), times})
	}
	slices.SortFunc(list, func(a, b Slowdown) int { return a.compare(&b.Shape) })
	return list
}

// RestoreSlowdowns takes over what was measured of the same devices together.
func (p *Profiler) RestoreSlowdowns(list []Slowdown) error {
	for _, s := range list {
		op, err := s.op()
		if err != nil {
			return err
		}
		p.slow[keyOf(-1, op)] = s.Times
	}
	return nil
}

// Merge adds what an older record of the device has and this one has not. What
// Learn would refuse is left out.
func (r *Record) Merge(old Record) {
	if r.Start == nil && plausible(old.Start) {
		r.Start = old.Start
	}
	if r.Copy == nil && plausible(old.Copy) {
		r.Copy = old.Copy
	}
	known := map[Shape]bool{}
	for _, t := range r.Times {
		known[t.Shape] = true
	}
	for _, t := range old.Times {
		if _, err := t.op(); err == nil && !known[t.Shape] {
			r.Times = append(r.Times, t)
		}
	}
	slices.SortFunc(r.Times, func(a, b Timing) int { return a.compare(&b.Shape) })
}

// MergeSlowdowns adds what an older list of the same devices has and list has not.
// What RestoreSlowdowns would refuse is left out.
func MergeSlowdowns(list, old []Slowdown) []Slowdown {
	known := map[Shape]bool{}
	for _, s := range list {
		known[s.Shape] = true
	}
	for _, s := range old {
		if _, err := s.op(); err == nil && !known[s.Shape] {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b Slowdown) int { return a.compare(&b.Shape) })
	return list
}
