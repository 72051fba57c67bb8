package gpupass

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

// Input returns the memory for the input rows of a chunk. They follow the RoPE angles
// of the chunk's tokens in the buffer that is sent to the device. See exec.Network.
func (n *Network) Input(tokens int) []float32 {
	n.inputErr = nil
	if tokens == 1 {
		return n.single.input[n.single.x:][:n.spec.Dim]
	}
	if tokens > n.chunk {
		n.inputErr = errChunkTooLarge
	} else if n.batch.capacity == 0 {
		n.inputErr = n.allocateBatch(n.chunk)
	}
	if n.inputErr != nil {
		return make([]float32, tokens*n.spec.Dim) // Read returns the error
	}
	return n.batch.host[n.batch.x:][:tokens*n.spec.Dim]
}

// Read runs the pass of a chunk. See exec.Network.
func (n *Network) Read(ctx context.Context, memory exec.SequenceMemory, c *exec.Chunk) error {
	t := memory.(*sequence)
	if err := n.inputErr; err != nil {
		n.inputErr = nil
		return err
	}
	if err := t.reserve(c.Position+c.Tokens, c.Position); err != nil {
		return err
	}
	if err := n.bind(t); err != nil {
		return err
	}
	var err error
	if c.Tokens == 1 {
		err = n.forwardSingle(c)
	} else {
		err = n.forwardBatch(ctx, c)
	}
	if err != nil {
		return n.finishFailed(err)
	}
	return nil
}

// finishFailed waits for the submitted commands of a chunk that failed or was
// cancelled, because the caller may free memory that kernels use.
func (n *Network) finishFailed(err error) error { return errors.Join(err, n.context.Finish()) }

// writeAngles writes the RoPE angles of a chunk's positions, grouped by rotation. Each
// group has space for room tokens.
func (n *Network) writeAngles(to []float32, c *exec.Chunk, room int) {
	for i := range n.spec.Ropes {
		r := &n.spec.Ropes[i]
		half := r.Dim / 2
		for j := range c.Tokens {
			at := to[j*r.Dim:][:r.Dim]
			r.Angles(at[:half], at[half:], c.Position+j, c.Long)
		}
		to = to[room*r.Dim:]
	}
}

// hostFloats returns the host's view of a buffer as numbers.
func hostFloats(m *opencl.Memory) []float32 { return pageFloats(m.Host()) }

// pageFloats returns page-aligned bytes as numbers.
func pageFloats(b []byte) []float32 {
	v, err := tiering.View[float32](b, len(b)/4)
	if err != nil {
		panic(err) // buffers are page-aligned
	}
	return v
}
