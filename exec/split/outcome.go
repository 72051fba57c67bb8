package split

import (
	"os"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/tiering"
)

// Outcome is a way to split the matmuls of a model. The zero Outcome leaves all rows on the CPU,
// without a device.
type Outcome struct {
	// RowsOf returns a function for exec.Split. Each loading of the model needs one of its own.
	RowsOf func() func(weights.Matmul) weights.RowSplit
	// HostBytes is a bound of the host's memory that the device's rows take: all of them, if both
	// share the memory. Upload is one of the largest rows while they are copied to the device.
	HostBytes, Upload int64
	// Whole is the model's place on a device that computes whole passes. The other fields are then zero.
	Whole *exec.Placement
}

// PlanFunc plans the memory of the rows that an outcome leaves on the CPU.
type PlanFunc func(Outcome) (*tiering.Plan, error)

// Outcomes returns how the model will be split: as planned or as an earlier trial showed, or, before
// the trial, in one of two ways. The trial may leave only prompts or only single tokens on the CPU,
// which takes no more memory than one of the two.
func (p *Prepared) Outcomes() []Outcome {
	t := &p.trial
	now := *t.plan
	prompts, tokens := t.offloads(p.matmuls)
	if !prompts && !tokens || t.o.Alone {
		return []Outcome{now.outcome(p.matmuls)}
	}
	if result := t.known(t.passes(p.matmuls)); result != nil {
		now.losses = t.lossesOf(result)
		return []Outcome{now.outcome(p.matmuls)}
	}
	lost := now
	lost.losses = losses{prompts: true, tokens: true}
	return []Outcome{now.outcome(p.matmuls), lost.outcome(p.matmuls)}
}

// PassTimes returns the measured times of a prefill chunk of so many tokens and of one token after it, as
// the model will be split, with all weights in memory; ok is false before the trial.
func (p *Prepared) PassTimes() (took profiles.PassTimes, chunk int, ok bool) {
	t := &p.trial
	result := t.known(t.passes(p.matmuls))
	if result == nil {
		return took, 0, false
	}
	took = result.Planned
	lost := t.lossesOf(result)
	if lost.prompts || took.Prompt == 0 {
		took.Prompt = result.Alone.Prompt
	}
	if lost.tokens || took.Token == 0 {
		took.Token = result.Alone.Token
	}
	return took, t.model.Chunk, took.Prompt > 0 && took.Token > 0
}

// outcome returns the current splits.
func (p *planner) outcome(matmuls []weights.Matmul) Outcome {
	o := Outcome{RowsOf: p.assign, HostBytes: otherBytes}
	shares := p.bench.devices[otherDevice].Capabilities().SharesMemory
	layers, cols := 1, 0
	for _, matmul := range matmuls {
		layers, cols = max(layers, matmul.Count), max(cols, matmul.Cols)
	}
	var layer, head, largest int64 // bytes that are read together, and of the largest matrix on the device
	for _, matmul := range matmuls {
		raw, device := p.offloadedBytes(matmul)
		largest = max(largest, device)
		if device > 0 {
			o.HostBytes += int64(p.placed(matmul)) * p.kernelMemory[matmulKey(matmul)]
		}
		if shares {
			o.HostBytes += int64(p.placed(matmul)) * device
		}
		if matmul.LastTokenOnly {
			head = raw
		} else {
			layer += raw * int64((matmul.Count+layers-1)/layers)
		}
	}
	if largest > 0 {
		o.HostBytes += int64(4 * p.chunk * cols) // the device's copy of an input
	}
	o.Upload = max(layer, head) + largest
	return o
}

// offloadedBytes returns the bytes of a matrix's rows on the device, as the file stores them, and a
// bound of their size there.
func (p *planner) offloadedBytes(matmul weights.Matmul) (raw, device int64) {
	rowBytes, err := matmul.Type.RowBytes(matmul.Cols)
	if err != nil || !p.types[matmul.Type] || !matmul.Splittable() {
		return 0, 0
	}
	split := p.splitOf(matmul)
	for _, rows := range split.RowRanges(matmul.Rows) {
		if n := rows[1] - rows[0]; n > 0 {
			raw += int64(n) * int64(rowBytes)
			device += int64(p.growth[matmul.Type]*float64((n+rowStep)*rowBytes)) + int64(os.Getpagesize())
			if p.static() { // its graphs gather inputs and outputs in buffers of their own
				device += int64(4 * p.chunk * (n + matmul.Cols))
			}
		}
	}
	return raw, device
}

// placed returns how many of a kind of matrices the device has memory for.
func (p *planner) placed(matmul weights.Matmul) int {
	if n, short := p.capacity[matmulKey(matmul)]; short {
		return n
	}
	return matmul.Count
}

// otherBytes bounds what a device takes besides rows and inputs.
const otherBytes = 1 << 20

// lossesOf returns what a trial leaves on the CPU.
func (t *trial) lossesOf(result *profiles.Trial) losses {
	if !t.halvesHost() {
		return lossesOf(result)
	}
	// A device for one of prompts and tokens would withhold its cores from the other.
	lost := !paysOff(answerTime(result.Planned), answerTime(result.Alone))
	return losses{prompts: lost, tokens: lost}
}
