package gpupass

import (
	"context"
	"errors"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

// Input is where rows of the embedding go: for one token behind its state and
// angles, for more behind theirs. See exec.Network.
func (n *Network) Input(tokens int) []float32 {
	n.failed = nil
	if tokens == 1 {
		return n.one.input[n.one.x:][:n.spec.Dim]
	}
	if tokens > n.chunk {
		n.failed = errBuffer
	} else if n.many.rows == 0 {
		n.failed = n.allocateMany(n.chunk)
	}
	if n.failed != nil {
		return make([]float32, tokens*n.spec.Dim) // Read tells why
	}
	return n.many.seen[n.many.x:][:tokens*n.spec.Dim]
}

// Read reads a chunk. See exec.Network.
func (n *Network) Read(ctx context.Context, memory exec.TextMemory, c *exec.Chunk) error {
	t := memory.(*text)
	if err := n.failed; err != nil {
		n.failed = nil
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
		err = n.readOne(c)
	} else {
		err = n.readMany(ctx, c)
	}
	if err != nil {
		return n.abandon(err)
	}
	return nil
}

// abandon waits for what was submitted of a chunk that failed, or that nobody wants
// any more: whoever learns that may free what kernels read and write.
func (n *Network) abandon(err error) error { return errors.Join(err, n.context.Finish()) }

// setAngles writes the angles of a chunk's positions, those of each rotation
// together, with room for so many tokens.
func (n *Network) setAngles(to []float32, c *exec.Chunk, room int) {
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

// floatsOf returns the numbers of a buffer that the host sees.
func floatsOf(m *opencl.Memory) []float32 { return floatsIn(m.Host()) }

// floatsIn returns bytes that begin at a page as numbers.
func floatsIn(b []byte) []float32 {
	v, err := tiering.View[float32](b, len(b)/4)
	if err != nil {
		panic(err) // buffers begin at pages
	}
	return v
}
