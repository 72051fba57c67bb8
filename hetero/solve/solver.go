package solve

import (
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Solver finds the split that ends first. It caches its results and is not safe for
// concurrent use.
type Solver struct {
	Costs  Costs
	Steps  Steps
	Static bool // device 1 runs prepared lengths only
	Single bool // there is no device 1
	// Sync is the lead time of device 0: the host must submit more work this long
	// before the device's queue is empty. Copy is the time of one copy, 0 if the
	// devices share memory.
	Sync, Copy time.Duration
	// Allow, if set, restricts the splits, for example to whole matmuls or to one
	// device.
	Allow func(s *Split) bool
	// Quota is the maximum fraction of a split matmul's time during which device 0 is
	// busy; the rest is for other programs. 0 means no limit.
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

// order reports whether device 1 is faster with streamed weights. It compares the
// orders at the kernel length that device 1 would use for most of the tokens.
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

// total predicts the time of a split on an idle host. If device 0 computes the whole
// matmul, its queue never runs empty, so the time includes no start latency. A piece on
// device 1 always adds the start latency.
//
// In prefill, device 1 has most of the work and hides the work of device 0, whose queue
// has run empty. In decoding, device 0 has most of the work: it starts at once and
// device 1 later, and while both work, they compete for memory bandwidth. If device 1
// ends last, the queue of device 0 runs empty, which adds its start latency.
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
