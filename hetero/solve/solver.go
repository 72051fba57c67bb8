package solve

import (
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Solver finds the split that ends first.
type Solver struct {
	Costs  Costs
	Steps  Steps
	Static bool // device 1 runs prepared lengths only
	Single bool // there is no device 1
	// Sync is how long before its queue runs empty device 0 must get more work.
	// Copy is the time of one copy, 0 where memory is shared.
	Sync, Copy time.Duration
	// Allow, if set, restricts the splits, for example to whole matmuls or to one
	// device.
	Allow func(s *Split) bool
	// Quota is the fraction of a matmul's time that device 0 may be busy, which
	// leaves it to other programs for the rest; 0 means all.
	Quota float64

	solved map[matmulKey]Split
}

// Solve returns the best split of a matmul and the operand order that is faster on
// device 1. It ignores the weights. If Allow accepts nothing, the split has no
// pieces.
func (s *Solver) Solve(op hetero.Op) Split {
	key := keyOf(0, op)
	key.streamed = false
	if split, known := s.solved[key]; known {
		return split
	}
	op.Weights = nil
	op.Streamed = s.order(op)
	best, first := Split{}, true
	for _, split := range s.Steps.Cuts(op, s.Static) {
		if s.Single && uses(&split, 1) || s.Allow != nil && !s.Allow(&split) {
			continue
		}
		split.Streamed = op.Streamed
		busy := s.busy(op, &split)
		split.Time = s.total(op, &split, busy)
		if s.Quota > 0 && len(split.Pieces) > 1 && busy[0].Seconds() > s.Quota*split.Time.Seconds() {
			continue
		}
		if first || split.Time < best.Time {
			best, first = split, false
		}
	}
	if s.solved == nil {
		s.solved = map[matmulKey]Split{}
	}
	s.solved[key] = best
	return best
}

// order reports whether device 1 is faster with streamed weights, at the length
// that it would run most of the matmul with.
func (s *Solver) order(op hetero.Op) bool {
	if s.Single {
		return op.Streamed
	}
	if s.Static {
		op.Tokens = s.Steps.lengths(op.Tokens)[0]
	}
	op.Streamed = true
	streamed := s.Costs.Time(1, op)
	op.Streamed = false
	return streamed <= s.Costs.Time(1, op)
}

// busy returns the working time of each device in a split.
func (s *Solver) busy(op hetero.Op, split *Split) (t [2]time.Duration) {
	for _, p := range split.Pieces {
		t[p.Device] += s.Costs.Time(p.Device, p.Op(op))
	}
	return t
}

// Total predicts the time of a split, whether Allow accepts it or not.
func (s *Solver) Total(op hetero.Op, split *Split) time.Duration {
	op.Streamed = split.Streamed
	return s.total(op, split, s.busy(op, split))
}

// total predicts the time of a split. The host is idle. Where device 0 does all,
// its queue stays filled; device 1 is always started and awaited.
//
// In prefill device 1 works most of the time and hides the work of device 0, whose
// queue has run empty. In decoding device 0 works most of the time: it starts at
// once and device 1 later, and while both work, they share memory bandwidth. Device
// 1 has to end first, or the queue of device 0 runs empty too.
func (s *Solver) total(op hetero.Op, split *Split, busy [2]time.Duration) time.Duration {
	copies := 2 * s.Copy
	switch {
	case busy[1] == 0:
		return busy[0]
	case busy[0] == 0:
		return busy[1] + s.Costs.Start(1) + s.Costs.Start(0) + copies
	case op.Tokens > 1:
		return max(busy[0]+s.Costs.Start(0), busy[1]+s.Costs.Start(1)) + s.Sync + copies
	}
	slow := s.Costs.Slowdown(op)
	late := s.Costs.Start(1) // device 0 may be done before device 1 starts
	rest := max(0, busy[0]-late)
	both := min(rest, busy[1])
	together := late + time.Duration(float64(both)*slow)
	if busy[1]+s.Sync > rest {
		copies += s.Costs.Start(0)
	}
	return together + max(rest, busy[1]) - both + copies
}
