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

// reserve grows the capacity to so many tokens and keeps the content.
func (t *sequence) reserve(tokens, have int) error {
	if tokens <= t.capacity {
		return nil
	}
	room := grownCapacity(t.capacity, tokens, t.network.spec.Context)
	layers, err := t.copyLayers(room, have)
	if err != nil {
		return err
	}
	err = free(t.layers)
	t.layers, t.capacity = layers, room
	t.unbind()
	return err
}

// copyLayers allocates buffers for so many tokens and copies the first have tokens to
// them.
func (t *sequence) copyLayers(tokens, have int) (layers []*opencl.Memory, err error) {
	n := t.network
	layers = make([]*opencl.Memory, len(t.layers))
	for l := range layers {
		size := tokens * n.tokenBytes(l)
		if layers[l], err = n.context.AllocRecordable(tiering.KVHot, size); err != nil {
			break
		}
		// Whole blocks: the last one may be partly filled.
		if used := min(size, (have+blockTokens-1)/blockTokens*blockTokens*n.tokenBytes(l)); used > 0 {
			if err = layers[l].Copy(t.layers[l], used); err != nil {
				break
			}
		}
	}
	// After a failure, earlier copies are still pending.
	if err = errors.Join(err, n.context.Finish()); err != nil {
		return nil, errors.Join(err, free(layers))
	}
	return layers, nil
}

// grownCapacity returns the new capacity of a sequence that needs room for so many
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
	c := &sequence{network: t.network, layers: make([]*opencl.Memory, len(t.layers)), capacity: t.capacity}
	if t.capacity == 0 {
		return c, nil
	}
	var err error
	c.layers, err = t.copyLayers(t.capacity, t.capacity)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close frees the memory.
func (t *sequence) Close() error {
	t.unbind()
	t.capacity = 0
	return free(t.layers)
}

// bind sets the kernels' KV arguments to a sequence.
func (t *sequence) bind() error {
	n := t.network
	if n.bound == t {
		return nil
	}
	n.bound = nil // until all kernels are set
	if err := n.dropRecording(); err != nil {
		return err
	}
	for l := range n.layers {
		if err := n.layers[l].bind(t.layers[l]); err != nil {
			return err
		}
	}
	n.bound = t
	return nil
}

// bind sets the KV arguments of a layer's kernels.
func (y *layer) bind(kv *opencl.Memory) error {
	for _, k := range y.one.attend {
		if err := k.SetMemory(attendOneKV, kv); err != nil {
			return err
		}
	}
	if y.many.attend == nil {
		return nil
	}
	if err := y.many.prepare.SetMemory(prepareKV, kv); err != nil {
		return err
	}
	return y.many.attend.SetMemory(attendManyKV, kv)
}
