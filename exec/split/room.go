package split

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
)

// room says how many matrices of each kind a device has memory for, of kinds that it
// was to get more of. What does not fit stays here.
type room map[weights.Product]int

// wish is a kind of matrices that a device was to get rows of.
type wish struct {
	kind  weights.Product
	count int
	bytes int64         // of the device's memory, for each
	saved time.Duration // by each, in a chunk of a prompt and the answer to it
}

// oftenEnough is how many times what matrices take in the file they take at most in a
// device's layout: those that have room for that are not asked.
const oftenEnough = 4

// makeRoom finds out what the device has memory for beside the buffers of a pass.
// What saves most time for its bytes goes first: of prompts those are the matrices with
// most arithmetic in one graph, the MLP's (mllm-NPU §4), and the output matrix the last.
func (p *planner) makeRoom(products []weights.Product, buffers int64) error {
	limit := p.lab.devices[other].Capabilities().Memory
	if limit == 0 || oftenEnough*p.stored(products)+buffers <= limit {
		return nil
	}
	var wishes []wish
	for _, product := range products {
		k := kind(product)
		share, known := p.shares[k]
		if !known || min(share.One, share.Many) >= product.Rows {
			continue
		}
		bytes, err := p.bytesThere(product, share)
		if err != nil {
			return err
		}
		wishes = append(wishes, wish{k, product.Count, bytes, p.saved(product, share)})
	}
	p.room = grant(wishes, limit-buffers)
	return nil
}

// grant returns which wishes do not fit, and how many of them do.
func grant(wishes []wish, left int64) room {
	slices.SortStableFunc(wishes, func(a, b wish) int {
		return cmp.Compare(float64(b.saved)/float64(b.bytes), float64(a.saved)/float64(a.bytes))
	})
	r := room{}
	for _, w := range wishes {
		n := int(min(int64(w.count), max(0, left)/max(1, w.bytes)))
		left -= int64(n) * w.bytes
		if n < w.count {
			r[w.kind] = n
		}
	}
	return r
}

// saved returns how much time a matrix saves by its share.
func (p *planner) saved(product weights.Product, share weights.Share) time.Duration {
	here := p.own[kind(product)]
	one, many := here.OneTime-share.OneTime, here.ManyTime-share.ManyTime
	if product.OneToken {
		return (1 + answer) * one
	}
	return many + answer*one
}

// stored returns what the device's rows take in the file.
func (p *planner) stored(products []weights.Product) (sum int64) {
	for _, product := range products {
		share, known := p.shares[kind(product)]
		bytes, err := product.Type.RowBytes(product.Cols)
		if known && err == nil {
			sum += int64(product.Count) * int64(product.Rows-min(share.One, share.Many)) * int64(bytes)
		}
	}
	return sum
}

// bytesThere returns what a matrix's kernels hold of the device's memory, as they
// are prepared for a model. Where the device has no memory for one, it is more than all.
func (p *planner) bytesThere(product weights.Product, share weights.Share) (sum int64, err error) {
	for _, rows := range share.Parts(product.Rows) {
		op := opOf(product, p.chunk)
		if op.Rows = rows[1] - rows[0]; op.Rows == 0 {
			continue
		}
		p.lab.operands.For(other, &op, 0)
		k, err := p.lab.devices[other].Prepare(op)
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

// each returns which rows the device has of one matrix after the other, as they are
// loaded: of a kind that it has no memory for, the first ones only.
func (p *planner) each() func(weights.Product) weights.Share {
	given := map[weights.Product]int{}
	return func(product weights.Product) weights.Share {
		k := kind(product)
		if n, short := p.room[k]; short && given[k] >= n {
			return p.own[k]
		}
		given[k]++
		return p.share(product)
	}
}

// leftOut returns how many matrices stay here that the device has no memory for.
func (p *planner) leftOut(products []weights.Product) (n int) {
	for _, product := range products {
		if fit, short := p.room[kind(product)]; short {
			n += product.Count - fit
		}
	}
	return n
}
