package split

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
)

// capacity says how many matrices of each kind a device has memory for, of kinds that it
// was to get more of. What does not fit stays here.
type capacity map[weights.Product]int

// candidate is a kind of matrices that a device was to get rows of.
type candidate struct {
	key   weights.Product
	count int
	bytes int64         // of the device's memory, for each
	saved time.Duration // by each, in a chunk of a prompt and the answer to it
}

// layoutGrowth is how many times what matrices take in the file they take at most in a
// device's layout: those that have room for that are not asked.
const layoutGrowth = 4

// fitMemory finds out what the device has memory for beside the buffers of a pass.
// What saves most time for its bytes goes first: of prompts those are the matrices with
// most arithmetic in one graph, the MLP's (mllm-NPU §4), and the output matrix the last.
func (p *planner) fitMemory(products []weights.Product, buffers int64) error {
	limit := p.bench.devices[otherDevice].Capabilities().Memory
	if limit == 0 || layoutGrowth*p.fileBytes(products)+buffers <= limit {
		return nil
	}
	var wishes []candidate
	for _, product := range products {
		k := matmulKey(product)
		share, known := p.splits[k]
		if !known || min(share.One, share.Many) >= product.Rows {
			continue
		}
		bytes, err := p.deviceBytes(product, share)
		if err != nil {
			return err
		}
		wishes = append(wishes, candidate{k, product.Count, bytes, p.savedTime(product, share)})
	}
	p.capacity = selectCandidates(wishes, limit-buffers)
	return nil
}

// selectCandidates returns which wishes do not fit, and how many of them do.
func selectCandidates(wishes []candidate, left int64) capacity {
	slices.SortStableFunc(wishes, func(a, b candidate) int {
		return cmp.Compare(float64(b.saved)/float64(b.bytes), float64(a.saved)/float64(a.bytes))
	})
	r := capacity{}
	for _, w := range wishes {
		n := int(min(int64(w.count), max(0, left)/max(1, w.bytes)))
		left -= int64(n) * w.bytes
		if n < w.count {
			r[w.key] = n
		}
	}
	return r
}

// savedTime returns how much time a matrix saves by its share.
func (p *planner) savedTime(product weights.Product, share weights.Share) time.Duration {
	here := p.hostOnly[matmulKey(product)]
	one, many := here.OneTime-share.OneTime, here.ManyTime-share.ManyTime
	if product.OneToken {
		return (1 + answerTokens) * one
	}
	return many + answerTokens*one
}

// fileBytes returns what the device's rows take in the file.
func (p *planner) fileBytes(products []weights.Product) (sum int64) {
	for _, product := range products {
		share, known := p.splits[matmulKey(product)]
		bytes, err := product.Type.RowBytes(product.Cols)
		if known && err == nil {
			sum += int64(product.Count) * int64(product.Rows-min(share.One, share.Many)) * int64(bytes)
		}
	}
	return sum
}

// deviceBytes returns what a matrix's kernels hold of the device's memory, as they
// are prepared for a model. Where the device has no memory for one, it is more than all.
func (p *planner) deviceBytes(product weights.Product, share weights.Share) (sum int64, err error) {
	for _, rows := range share.Parts(product.Rows) {
		op := opOf(product, p.chunk)
		if op.Rows = rows[1] - rows[0]; op.Rows == 0 {
			continue
		}
		p.bench.operands.For(otherDevice, &op, 0)
		k, err := p.bench.devices[otherDevice].Prepare(op)
		if hetero.IsOutOfMemory(err) {
			return math.MaxInt64, nil
		}
		if err != nil {
			return 0, err
		}
		sum += k.Bytes()
		if err := k.Close(); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// assign returns which rows the device has of one matrix after the other, as they are
// loaded: of a kind that it has no memory for, the first ones only.
func (p *planner) assign() func(weights.Product) weights.Share {
	given := map[weights.Product]int{}
	return func(product weights.Product) weights.Share {
		k := matmulKey(product)
		if n, short := p.capacity[k]; short && given[k] >= n {
			return p.hostOnly[k]
		}
		given[k]++
		return p.splitOf(product)
	}
}

// unplaced returns how many matrices stay here that the device has no memory for.
func (p *planner) unplaced(products []weights.Product) (n int) {
	for _, product := range products {
		if fit, short := p.capacity[matmulKey(product)]; short {
			n += product.Count - fit
		}
	}
	return n
}
