package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Options configure the simulation of a chip.
type Options struct {
	// TimeOnly charges time without computing results, which makes large matmuls cheap to
	// simulate. Weights and views may then be empty.
	TimeOnly bool
	// SeparateMemory gives the GPU its own memory, as some drivers do. Flush and Fetch then copy,
	// and each copy waits for the GPU's queue. A missing Flush or Fetch gives wrong results.
	SeparateMemory bool
	// GPUFraction is the fraction of the GPU that other programs, such as a game, leave; 0 means
	// all.
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

// New returns a chip with a name in SoCs.
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

// Grain returns the shortest sleep of the simulated system.
func (s *SoC) Grain() time.Duration { return seconds(s.value[sleepGrain]) }

// Sync returns how long before the end of a queue the host should submit more work: twice the time
// of a poll and a submission, because their predictions are not exact to the microsecond.
func (s *SoC) Sync() time.Duration {
	return seconds(2 * (s.value[pollCost] + s.value[submitCost]))
}

// Copy returns the time of a copy between processors that do not share memory.
func (s *SoC) Copy() time.Duration { return seconds(s.value[copyCost]) }

// WeightBytes is the size of a weight in memory: 4 bits, as HeteroLLM stores it.
const WeightBytes = 0.5

// activationBytes is the size of a number of the input and the output.
const activationBytes = 2

// cost returns the seconds of arithmetic of a matmul on a device and its bytes of memory traffic.
func (s *SoC) cost(kind hetero.Kind, op hetero.Op) (compute, bytes float64) {
	tokens, rows, cols := float64(op.Tokens), float64(op.Rows), float64(op.Cols)
	bytes = rows*cols*WeightBytes + tokens*(rows+cols)*activationBytes
	switch kind {
	case hetero.CPU:
		return 2 * tokens * rows * cols / s.value[cpuFlops], bytes
	case hetero.GPU:
		fraction := 1.0
		if s.o.GPUFraction > 0 {
			fraction = s.o.GPUFraction
		}
		return 2 * tokens * rows * cols / (s.value[gpuFlops] * fraction), bytes
	}
	// Stage performance: the array works on whole tiles.
	side := s.value[npuArray]
	whole := func(n float64) float64 { return math.Ceil(n/side) * side }
	tokens, rows, cols = whole(tokens), whole(rows), whole(cols)
	if op.Tokens == 1 {
		return 2 * tokens * rows * cols / s.value[npuInts], bytes
	}
	// Order and shape: the streamed operand pays for loading the resident tiles, and longer sums
	// need more tiles.
	streamed, resident := rows, tokens
	if !op.Streamed {
		streamed, resident = tokens, rows
	}
	peak := s.value[npuFlops]
	effective := min(streamed+s.value[npuShape]*cols, streamed*peak/s.value[npuFloor])
	return 2*resident*cols*effective/peak + rows*cols*s.value[npuWeight]/s.value[npuStream], bytes
}

// paperWeights is the number of weights of the four graphs whose preparation HeteroLLM timed: the
// matmuls of a layer of Llama-8B.
const paperWeights = 4096*4096 + 1024*4096 + 2*14336*4096

// preparation returns the time in which the NPU's compiler prepares the graph of a matmul. It is
// proportional to the weights and to a power of the length that fits the two published times.
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
