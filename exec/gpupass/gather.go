package gpupass

import (
	"errors"

	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

// Drivers need more time for a launch with more buffers: each buffer other than the
// first costs NVIDIA's driver 5 to 10 % of the launch. So the weights of GEMVs are
// moved into the buffer that holds everything else that GEMVs access.

const (
	// Weights are gathered if they take at most 1/gatherFraction of the device memory,
	// because they exist twice while they are moved.
	gatherFraction = 4
	// gatherAlign aligns matrices in the buffer.
	gatherAlign = 256
)

// gatheredBytes returns the size rounded up to the alignment.
func gatheredBytes(bytes int64) int64 { return (bytes + gatherAlign - 1) / gatherAlign * gatherAlign }

// gather moves the memory of one token and all weights into one buffer, if a buffer
// can be as large and the device has room. It skips devices that share memory, where
// the second copy would take the machine's memory.
func (n *Network) gather() error {
	t, c := &n.single, n.context
	size := gatheredBytes(int64(t.memory.Size()))
	from := int(size)
	for _, p := range n.matrices {
		size += gatheredBytes(p.Bytes())
	}
	if c.SharesMemory || c.Weights != opencl.Buffers || size > min(c.Info.MaxAllocation, c.Info.Memory/gatherFraction) {
		return nil
	}
	n.openGraphs()
	all, err := c.AllocRecordable(tiering.Pinned, int(size))
	if err != nil {
		return err
	}
	n.own(memoryCloser{all})
	if err := errors.Join(all.Copy(t.memory, t.memory.Size()), c.Finish()); err != nil {
		return err
	}
	for _, p := range n.matrices {
		if err := p.MoveTo(all, from); err != nil {
			return err
		}
		from += int(gatheredBytes(p.Bytes()))
	}
	err = t.memory.Free() // still in owned; freeing twice has no effect
	if t.hidden == t.memory {
		t.hidden = all
	}
	t.memory = all
	return err
}
