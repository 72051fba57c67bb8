package gpupass

import (
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// blockTokens is the number of tokens in a block of keys and values, see
	// hetero/opencl/kernels/kv.cl.
	blockTokens = 64
	// firstTokens is a sequence's initial capacity; it grows by doubling.
	firstTokens = 512
)

// sequence is the KV cache of one sequence: a buffer per layer.
type sequence struct {
	network  *Network
	layers   []*opencl.Memory
	capacity int // tokens
}

// NewSequence returns an empty sequence. Its memory is allocated by Read.
func (n *Network) NewSequence() (exec.SequenceMemory, error) {
	return &sequence{network: n, layers: make([]*opencl.Memory, len(n.layers))}, nil
}

// tokenBytes returns the KV bytes of a token in a layer.
func (n *Network) tokenBytes(l int) int {
	dims := (n.spec.HeadDim + 15) / 16 * 16
	return n.spec.Layers[l].KVHeads * (2*dims + 8)
}

// reserve grows the capacity to a number of tokens. It preserves the first have tokens.
func (t *sequence) reserve(tokens, have int) error {
	if tokens <= t.capacity {
		return nil
	}
	n := t.network
	room := grownCapacity(t.capacity, tokens, n.spec.Context)
	layers := make([]*opencl.Memory, len(t.layers))
	var err error
	for l := range layers {
		if layers[l], err = n.context.AllocRecordable(tiering.KVHot, room*n.tokenBytes(l)); err != nil {
			break
		}
		// Whole blocks: the last one may be partly filled.
		if used := (have + blockTokens - 1) / blockTokens * blockTokens * n.tokenBytes(l); used > 0 {
			if err = layers[l].Copy(t.layers[l], used); err != nil {
				break
			}
		}
	}
	// After a failure, earlier copies are still pending.
	if err = errors.Join(err, n.context.Finish()); err != nil {
		return errors.Join(err, free(layers))
	}
	err = free(t.layers)
	t.layers, t.capacity = layers, room
	t.unbind()
	return err
}

// grownCapacity returns the new capacity of a sequence that needs room for a number of
// tokens and has at most context tokens.
func grownCapacity(room, tokens, context int) int {
	room = max(room, firstTokens)
	for room < tokens {
		room *= 2
	}
	return min(room, max((context+blockTokens-1)/blockTokens*blockTokens, tokens))
}

func free(layers []*opencl.Memory) error {
	var err error
	for l, m := range layers {
		err = errors.Join(err, m.Free())
		layers[l] = nil
	}
	return err
}

// unbind makes the network bind its kernels again before they use the sequence.
func (t *sequence) unbind() {
	if t.network.bound == t {
		t.network.bound = nil
	}
}

// Clone copies the sequence.
func (t *sequence) Clone() (exec.SequenceMemory, error) {
	c := &sequence{network: t.network, layers: make([]*opencl.Memory, len(t.layers))}
	if t.capacity == 0 {
		return c, nil
	}
	var err error
	for l, m := range t.layers {
		if c.layers[l], err = t.network.context.AllocRecordable(tiering.KVHot, m.Size()); err != nil {
			break
		}
		if err = c.layers[l].Copy(m, m.Size()); err != nil {
			break
		}
	}
	// After a failure, earlier copies are still pending.
	if err = errors.Join(err, t.network.context.Finish()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.capacity = t.capacity
	return c, nil
}

// Close frees the memory.
func (t *sequence) Close() error {
	t.unbind()
	t.capacity = 0
	return free(t.layers)
}

// bind sets the kernels' KV arguments to a sequence.
func (n *Network) bind(t *sequence) error {
	if n.bound == t {
		return nil
	}
	n.bound = nil // until all kernels are set
	if err := n.dropRecording(); err != nil {
		return err
	}
	for l := range n.layers {
		y := &n.layers[l]
		for _, k := range y.single.attend {
			if err := k.SetMemory(attendSingleKV, t.layers[l]); err != nil {
				return err
			}
		}
		if y.batch.attend == nil {
			continue
		}
		if err := y.batch.prepare.SetMemory(prepareKV, t.layers[l]); err != nil {
			return err
		}
		if err := y.batch.attend.SetMemory(attendBatchKV, t.layers[l]); err != nil {
			return err
		}
	}
	n.bound = t
	return nil
}
