package split

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/tiering"
)

// capacity is how many matrices of each kind fit into the device's memory, for
// kinds that do not fit completely. The rest stays on the CPU.
type capacity map[weights.Matmul]int

// candidate is a kind of matrices with planned rows on the device.
type candidate struct {
	key   weights.Matmul
	count int
	bytes int64         // device memory per matrix
	saved time.Duration // per matrix, in a prompt chunk and the answer to it
}

// layoutGrowth bounds the ratio of a device's layout to the file's. If memory
// suffices for that, the exact sizes are not needed.
const layoutGrowth = 4

// fitMemory decides which matrices get rows in the device's memory, besides the
// buffers of a pass. It places those first that save the most time per byte: for
// prompts the MLP's, which have the most arithmetic per graph (mllm-NPU §4), and
// the output matrix last.
func (p *planner) fitMemory(matmuls []weights.Matmul, buffers int64) error {
	limit := p.bench.devices[otherDevice].Capabilities().Memory
	if limit == 0 || layoutGrowth*p.fileBytes(matmuls)+buffers <= limit {
		return nil
	}
	var wanted []candidate
	for _, matmul := range matmuls {
		k := matmulKey(matmul)
		split, known := p.splits[k]
		if !known || min(split.Single, split.Batch) >= matmul.Rows {
			continue
		}
		bytes, err := p.deviceBytes(matmul, split)
		if err != nil {
			return err
		}
		wanted = append(wanted, candidate{k, matmul.Count, bytes, p.savedTime(matmul, split)})
	}
	p.capacity = selectCandidates(wanted, limit-buffers)
	return nil
}

// selectCandidates returns the kinds that do not fit completely, and how many of
// each fit.
func selectCandidates(wanted []candidate, left int64) capacity {
	slices.SortStableFunc(wanted, func(a, b candidate) int {
		return cmp.Compare(float64(b.saved)/float64(b.bytes), float64(a.saved)/float64(a.bytes))
	})
	r := capacity{}
	for _, w := range wanted {
		n := int(min(int64(w.count), max(0, left)/max(1, w.bytes)))
		left -= int64(n) * w.bytes
		if n < w.count {
			r[w.key] = n
		}
	}
	return r
}

// savedTime returns how much time the split of a matrix saves.
func (p *planner) savedTime(matmul weights.Matmul, split weights.RowSplit) time.Duration {
	here := p.hostOnly[matmulKey(matmul)]
	single, batch := here.SingleTime-split.SingleTime, here.BatchTime-split.BatchTime
	if matmul.LastTokenOnly {
		return (1 + answerTokens) * single
	}
	return batch + answerTokens*single
}

// fileBytes returns the size of the offloaded rows in the file.
func (p *planner) fileBytes(matmuls []weights.Matmul) (sum int64) {
	for _, matmul := range matmuls {
		split, known := p.splits[matmulKey(matmul)]
		bytes, err := matmul.Type.RowBytes(matmul.Cols)
		if known && err == nil {
			sum += int64(matmul.Count) * int64(matmul.Rows-min(split.Single, split.Batch)) * int64(bytes)
		}
	}
	return sum
}

// deviceBytes returns the device memory of a matrix's kernels, prepared as for the
// model. It is math.MaxInt64 if one does not fit.
func (p *planner) deviceBytes(matmul weights.Matmul, split weights.RowSplit) (sum int64, err error) {
	if err := p.bench.allocate(); err != nil {
		return 0, err
	}
	for _, rows := range split.RowRanges(matmul.Rows) {
		op := opOf(matmul, p.chunk)
		if op.Rows = rows[1] - rows[0]; op.Rows == 0 {
			continue
		}
		rows := op.Rows
		op = sampleOf(op)
		p.bench.operands.For(otherDevice, &op, 0)
		k, err := p.bench.devices[otherDevice].Prepare(op)
		if hetero.IsOutOfMemory(err) {
			return math.MaxInt64, nil
		}
		if err != nil {
			return 0, err
		}
		sum += (k.Bytes()*int64(rows) + int64(op.Rows) - 1) / int64(op.Rows)
		if err := k.Close(); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// measuring returns the memory that the measurements of the plan take if there is little room. It follows from
// their shapes, and is found by taking that memory once.
func (t *trial) measuring() (bytes int64, err error) {
	bench := t.plan.bench
	key := "measurements with " + strings.Join(bench.keys, " and ") + ":"
	for _, op := range bench.samples {
		key += fmt.Sprintf(" %d × %d × %d %v", op.Tokens, op.Rows, op.Cols, op.Type)
	}
	if stored, known := bench.profile.Memory[key]; known {
		return stored, nil
	}
	model := t.model
	model.Budget = tiering.New(0)
	l, err := openBench(nil, &model, &Options{Device: t.o.Device, Memory: t.o.Memory})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if l.operands, err = solve.NewOperands(l.budget, l.devices, bench.ops, 0); err != nil {
		return 0, err
	}
	if err := l.profiler.Occupy(bench.samples); err != nil {
		return 0, err
	}
	bytes, changed := bench.profile.Cover(key, l.budget.Usage().TotalPeak, 0, 1)
	if changed {
		bench.profile.SaveOrReport(t.o.Dir, t.o.Report)
	}
	return bytes, nil
}

// assign returns a function that returns the split of each matrix, in loading order.
// If a kind does not fit completely, its first matrices have rows on the device.
func (p *planner) assign() func(weights.Matmul) weights.RowSplit {
	given := map[weights.Matmul]int{}
	return func(matmul weights.Matmul) weights.RowSplit {
		k := matmulKey(matmul)
		if n, short := p.capacity[k]; short && given[k] >= n {
			return p.hostOnly[k]
		}
		given[k]++
		return p.splitOf(matmul)
	}
}

// unplaced returns how many matrices stay on the CPU for lack of memory.
func (p *planner) unplaced(matmuls []weights.Matmul) (n int) {
	for _, matmul := range matmuls {
		if fit, short := p.capacity[matmulKey(matmul)]; short {
			n += matmul.Count - fit
		}
	}
	return n
}
