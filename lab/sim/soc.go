package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Options say how a chip is simulated.
type Options struct {
	// TimeOnly charges time and computes nothing, so that products of real sizes
	// cost the simulator nothing. Weights and views may then be empty.
	TimeOnly bool
	// SeparateMemory takes the shared memory away from the GPU, whose drivers keep memory
	// of their own: it has to be flushed and fetched, each at the price of a copy
	// that waits for the GPU's queue. What was forgotten shows in the results.
	SeparateMemory bool
	// GPUFraction is how much of the GPU is left by others that use it, such as a
	// game; 0 means all.
	GPUFraction float64
}

// SoC is a simulated chip.
type SoC struct {
	Name          string
	CPU, GPU, NPU *Device
	machine       *machine
	value         map[string]float64
	o             Options
}

// New makes a chip, one of SoCs.
func New(name string, o Options) (*SoC, error) {
	constants := Constants(name)
	if constants == nil {
		return nil, fmt.Errorf("sim: no chip %q; there are %v", name, SoCs())
	}
	s := &SoC{Name: name, value: map[string]float64{}, o: o}
	for _, c := range constants {
		s.value[c.Name] = c.Value
	}
	s.machine = &machine{all: s.value[allBandwidth], grain: s.value[sleepGrain], pollTime: s.value[pollCost]}
	s.CPU = s.device(hetero.CPU)
	s.GPU = s.device(hetero.GPU)
	s.NPU = s.device(hetero.NPU)
	return s, nil
}

func (s *SoC) device(kind hetero.Kind) *Device {
	q := &queue{own: s.value[oneBandwidth]}
	d := &Device{soc: s, queue: q, kernels: map[*kernel]bool{}, buffers: map[*hetero.Buffer]*memory{}}
	d.caps = hetero.Capabilities{
		Name: fmt.Sprintf("simulated %s %v", s.Name, kind), Kind: kind, Simulated: true,
		SharesMemory: !s.o.SeparateMemory || kind != hetero.GPU,
	}
	if kind == hetero.NPU {
		d.caps.Static, d.caps.Memory = true, int64(s.value[npuMemory])
	}
	s.machine.queue = append(s.machine.queue, q)
	return d
}

// Grain is the shortest time that the simulated system sleeps.
func (s *SoC) Grain() time.Duration { return seconds(s.value[sleepGrain]) }

// Sync is how long before its end a queue should get more work: twice what the
// host takes to see that other work has ended and to submit, as neither is
// predicted to the microsecond.
func (s *SoC) Sync() time.Duration {
	return seconds(2 * (s.value[pollCost] + s.value[submitCost]))
}

// Copy is what one copy between processors takes that do not share memory.
func (s *SoC) Copy() time.Duration { return seconds(s.value[copyCost]) }

// WeightBytes is what a weight takes in memory: 4 bits, as HeteroLLM stores it.
const WeightBytes = 0.5

// activationBytes is what a number of the input and output takes.
const activationBytes = 2

// cost returns the seconds of arithmetic of a product on a device and the bytes
// that it moves.
func (s *SoC) cost(kind hetero.Kind, op hetero.Op) (compute, bytes float64) {
	tokens, rows, cols := float64(op.Tokens), float64(op.Rows), float64(op.Cols)
	bytes = rows*cols*WeightBytes + tokens*(rows+cols)*activationBytes
	switch kind {
	case hetero.CPU:
		return 2 * tokens * rows * cols / s.value[cpuFlops], bytes
	case hetero.GPU:
		share := 1.0
		if s.o.GPUFraction > 0 {
			share = s.o.GPUFraction
		}
		return 2 * tokens * rows * cols / (s.value[gpuFlops] * share), bytes
	}
	// Stage performance: the array works on whole tiles.
	side := s.value[npuArray]
	whole := func(n float64) float64 { return math.Ceil(n/side) * side }
	tokens, rows, cols = whole(tokens), whole(rows), whole(cols)
	if op.Tokens == 1 {
		return 2 * tokens * rows * cols / s.value[npuInts], bytes
	}
	// Order and shape: what is streamed past a resident tile pays for loading it;
	// the longer the sum, the more tiles have to be loaded.
	streamed, resident := rows, tokens
	if !op.Streamed {
		streamed, resident = tokens, rows
	}
	peak := s.value[npuFlops]
	effective := min(streamed+s.value[npuShape]*cols, streamed*peak/s.value[npuFloor])
	return 2*resident*cols*effective/peak + rows*cols*s.value[npuWeight]/s.value[npuStream], bytes
}

// paperWeights is how many weights the four graphs have whose preparation
// HeteroLLM timed: those of the products of Llama-8B.
const paperWeights = 4096*4096 + 1024*4096 + 2*14336*4096

// preparation returns how long the NPU's compiler takes for the graph of a
// product: in proportion to the weights and to a power of the length, which is
// drawn through the two published times.
func (s *SoC) preparation(op hetero.Op) float64 {
	step := s.value[prepSteps]
	up := func(tokens float64) float64 {
		return math.Pow(step, math.Ceil(math.Log(tokens)/math.Log(step)-1e-9))
	}
	short, long := up(135), up(1000)
	power := math.Log(s.value[prepLong]/s.value[prepShort]) / math.Log(long/short)
	length := math.Pow(max(up(float64(op.Tokens)), 1)/short, power)
	return s.value[prepShort] * length * float64(op.Rows) * float64(op.Cols) / paperWeights
}
