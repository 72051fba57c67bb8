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

// Record holds a Profiler's measurements of one device, for storage.
type Record struct {
	Start *time.Duration `json:"start_ns,omitempty"`
	Copy  *time.Duration `json:"copy_ns,omitempty"`
	Times []Timing       `json:"times"`
}

// Timing is the measured time of a matmul.
type Timing struct {
	Shape
	Alone  time.Duration `json:"alone_ns"`  // on an idle device
	Steady time.Duration `json:"steady_ns"` // in a full queue
}

// Shape is a matmul without its weights.
type Shape struct {
	Type     string `json:"type"`
	Tokens   int    `json:"tokens"`
	Rows     int    `json:"rows"`
	Cols     int    `json:"cols"`
	Streamed bool   `json:"streamed"`
}

// Slowdown is the measured slowdown of a matmul while both devices work.
type Slowdown struct {
	Shape
	Times float64 `json:"times"`
}

// ErrRecord marks a stored record with impossible values.
var ErrRecord = errors.New("solve: invalid record")

// ShapeOf returns the shape of a matmul.
func ShapeOf(op hetero.Op) Shape {
	return Shape{op.Type.String(), op.Tokens, op.Rows, op.Cols, op.Streamed}
}

func (k matmulKey) shape() Shape { return Shape{k.typ.String(), k.tokens, k.rows, k.cols, k.streamed} }

// Op returns the matmul, without weights.
func (s *Shape) Op() (hetero.Op, error) {
	t, known := quant.ParseType(s.Type)
	if !known || s.Tokens < 1 || s.Rows < 1 || s.Cols < 1 {
		return hetero.Op{}, fmt.Errorf("%w: matmul of %d × %d × %d in %q", ErrRecord, s.Tokens, s.Rows, s.Cols, s.Type)
	}
	return hetero.Op{Type: t, Tokens: s.Tokens, Rows: s.Rows, Cols: s.Cols, Streamed: s.Streamed}, nil
}

// op returns the matmul, or an error if the times are impossible.
func (t *Timing) op() (hetero.Op, error) {
	if !Credible(t.Steady) || !Credible(t.Alone) {
		return hetero.Op{}, fmt.Errorf("%w: matmul times %v and %v", ErrRecord, t.Alone, t.Steady)
	}
	return t.Op()
}

// op returns the matmul, or an error if the factor is impossible.
func (s *Slowdown) op() (hetero.Op, error) {
	if !(s.Times >= 1 && s.Times < 1e6) {
		return hetero.Op{}, fmt.Errorf("%w: slowdown %g", ErrRecord, s.Times)
	}
	return s.Op()
}

// Credible reports whether took is a possible time of a matmul.
func Credible(took time.Duration) bool { return took > 0 && took < never }

// plausible reports whether took is a possible time; unlike Credible it accepts 0.
func plausible(took *time.Duration) bool { return took != nil && *took >= 0 && *took < never }

// Record returns the measurements of a device.
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

// compare orders shapes, so that equal measurements give equal files.
func (s *Shape) compare(t *Shape) int {
	return cmp.Or(strings.Compare(s.Type, t.Type), s.Tokens-t.Tokens, s.Cols-t.Cols, s.Rows-t.Rows, strings.Compare(fmt.Sprint(s.Streamed), fmt.Sprint(t.Streamed)))
}

// Restore loads earlier measurements of a device.
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

// Slowdowns returns the measured slowdowns of the devices.
func (p *Profiler) Slowdowns() []Slowdown {
	list := []Slowdown{}
	for key, times := range p.slow {
		list = append(list, Slowdown{key.shape(), times})
	}
	slices.SortFunc(list, func(a, b Slowdown) int { return a.compare(&b.Shape) })
	return list
}

// RestoreSlowdowns loads earlier slowdowns of the same devices.
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

// Merge adds the measurements of an older record that are missing in r. It drops
// those that Restore would reject.
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

// MergeSlowdowns adds the entries of an older list of the same devices that are
// missing in list. It drops those that RestoreSlowdowns would reject.
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
