package gpupass

import (
	"errors"

	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/tiering"
)

// A launch takes drivers the longer the more buffers it names: one of another kind than
// the first costs NVIDIA's a twentieth to a tenth of the launch. So products of one
// token find weights in the buffer where everything else is that they read and write.

const (
	// gatherFraction is of how much of the device's memory the weights may take a part for
	// that: while they are moved they are there twice.
	gatherFraction = 4
	// gatherAlign is what parts of the buffer begin at a multiple of.
	gatherAlign = 256
)

// gatheredBytes returns what so many bytes take there.
func gatheredBytes(bytes int64) int64 { return (bytes + gatherAlign - 1) / gatherAlign * gatherAlign }

// gather moves all weights behind the memory of one token, if one buffer can be as
// large and the device has room for it. On devices that share memory it is not done:
// it would be the machine's that is taken twice.
func (n *Network) gather() error {
	t, c := &n.one, n.context
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
	err = t.memory.Free() // owned twice over: there is nothing left to be given back in the end
	if t.hidden == t.memory {
		t.hidden = all
	}
	t.memory = all
	return err
}
