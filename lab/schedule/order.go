package schedule

import (
	"fmt"
	"time"
)

// Stage is one step of all chunks of a prompt: a subgraph of a layer.
type Stage struct {
	Name string
	NPU  bool // runs on the NPU, else on the CPU or GPU
	// Mixes reports that it reads the output of earlier chunks: attention.
	Mixes bool
	// Time returns its duration for a chunk; that of attention grows with the chunks before it.
	Time func(chunk int) time.Duration
}

// Slot is a scheduled subgraph.
type Slot struct {
	Chunk, Stage int
	Begin, End   time.Duration
}

// Order is a scheduling policy.
type Order uint8

// Scheduling policies.
const (
	InOrder    Order = iota // by chunk, then by stage, on each processor
	OutOfOrder              // the ready subgraph that keeps the NPU busiest
)

// Run schedules the chunks of a prompt on two processors, the NPU and one for everything else. Each
// processor runs one subgraph at a time.
//
// A subgraph is ready when the previous subgraph of its chunk is done; a subgraph that mixes chunks
// also needs those of all earlier chunks. Out of order, a free processor takes the ready subgraph
// with the largest C (mllm-NPU §3.4). For a subgraph off the NPU, C is the NPU time that it
// unlocks. For one on the NPU, C is minus the time that it unlocks on the other processor.
func Run(stages []Stage, chunks int, order Order) []Slot {
	s := &state{stages: stages, chunks: chunks, done: make([]int, chunks), running: make([]bool, chunks)}
	for len(s.slots) < chunks*len(stages) || s.busy[0] != nil || s.busy[1] != nil {
		for processor := range s.busy {
			if s.busy[processor] == nil {
				s.begin(processor, order)
			}
		}
		s.finish()
	}
	return s.slots
}

// state is a schedule under construction.
type state struct {
	stages  []Stage
	chunks  int
	now     time.Duration
	done    []int  // [chunk] stages that are complete
	running []bool // [chunk]
	busy    [2]*Slot
	slots   []Slot
}

func (s *state) processor(stage int) int {
	if s.stages[stage].NPU {
		return 1
	}
	return 0
}

// ready reports whether a stage of a chunk can begin when the stages in extra are done too.
func (s *state) ready(chunk, stage int, extra ...[2]int) bool {
	complete := func(c, upto int) bool {
		n := s.done[c]
		for _, e := range extra {
			if e[0] == c && e[1] == n {
				n++
			}
		}
		return n >= upto
	}
	if !complete(chunk, stage) {
		return false
	}
	if s.stages[stage].Mixes {
		for c := range chunk {
			if !complete(c, stage) {
				return false
			}
		}
	}
	return true
}

func (s *state) begin(processor int, order Order) {
	best, value, found := 0, time.Duration(0), false
	for c := range s.chunks {
		stage := s.done[c]
		if stage == len(s.stages) {
			continue
		}
		ours := s.processor(stage) == processor
		if ours && !s.running[c] && s.ready(c, stage) {
			if v := s.unlocked(c, stage); !found || order == OutOfOrder && v > value {
				best, value, found = c, v, true
			}
		}
		// In order, only the first chunk that still needs this processor may use it.
		if order == InOrder && s.needs(c, processor) {
			break
		}
	}
	if !found {
		return
	}
	stage := s.done[best]
	s.running[best] = true
	s.busy[processor] = &Slot{best, stage, s.now, s.now + s.stages[stage].Time(best)}
}

// needs reports whether a chunk still needs a processor.
func (s *state) needs(chunk, processor int) bool {
	for stage := s.done[chunk]; stage < len(s.stages); stage++ {
		if s.processor(stage) == processor {
			return true
		}
	}
	return false
}

// unlocked returns C of a ready subgraph; see Run.
func (s *state) unlocked(chunk, stage int) time.Duration {
	sum := time.Duration(0)
	this := [2]int{chunk, stage}
	for c := chunk; c < s.chunks; c++ {
		next := s.done[c]
		if c == chunk {
			next++
		}
		if next < len(s.stages) && s.processor(next) != s.processor(stage) && !(c != chunk && s.ready(c, next)) && s.ready(c, next, this) {
			sum += s.stages[next].Time(c)
		}
	}
	if s.stages[stage].NPU {
		return -sum
	}
	return sum
}

// finish advances time until a processor is free.
func (s *state) finish() {
	first := -1
	for i, b := range s.busy {
		if b != nil && (first < 0 || b.End < s.busy[first].End) {
			first = i
		}
	}
	if first < 0 {
		return
	}
	b := s.busy[first]
	s.now, s.busy[first] = b.End, nil
	s.done[b.Chunk]++
	s.running[b.Chunk] = false
	s.slots = append(s.slots, *b)
}

// Length returns the end of the last subgraph.
func Length(slots []Slot) (end time.Duration) {
	for _, s := range slots {
		end = max(end, s.End)
	}
	return end
}

// Bubbles returns the fraction of the time in which the NPU is idle.
func Bubbles(stages []Stage, slots []Slot) float64 {
	busy := time.Duration(0)
	for _, s := range slots {
		if stages[s.Stage].NPU {
			busy += s.End - s.Begin
		}
	}
	return 1 - busy.Seconds()/Length(slots).Seconds()
}

// Check returns an error if a subgraph begins before its dependencies end, if two run at once on a
// processor, or if one is missing or runs twice.
func Check(stages []Stage, chunks int, slots []Slot) error {
	end := map[[2]int]time.Duration{}
	for _, s := range slots {
		if _, twice := end[[2]int{s.Chunk, s.Stage}]; twice {
			return fmt.Errorf("schedule: stage %d of chunk %d runs twice", s.Stage, s.Chunk)
		}
		end[[2]int{s.Chunk, s.Stage}] = s.End
	}
	if len(end) != chunks*len(stages) {
		return fmt.Errorf("schedule: it has %d of %d subgraphs", len(end), chunks*len(stages))
	}
	for i, s := range slots {
		first := s.Chunk
		if stages[s.Stage].Mixes {
			first = 0
		}
		for c := first; s.Stage > 0 && c <= s.Chunk; c++ {
			if end[[2]int{c, s.Stage - 1}] > s.Begin {
				return fmt.Errorf("schedule: stage %d of chunk %d begins before stage %d of chunk %d ends", s.Stage, s.Chunk, s.Stage-1, c)
			}
		}
		for _, o := range slots[:i] {
			if stages[o.Stage].NPU == stages[s.Stage].NPU && o.Begin < s.End && s.Begin < o.End {
				return fmt.Errorf("schedule: chunks %d and %d run at once on a processor", o.Chunk, s.Chunk)
			}
		}
	}
	return nil
}
