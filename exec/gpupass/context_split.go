package gpupass

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/hetero/opencl"
)

// Attention of one token divides the context into parts, so that all of the device
// has something to do. Every group of the output product reads the sums of all of
// them, though. So long contexts have few parts, of large groups.

const (
	// smallGroup is how many tokens attention's groups take at a time in short contexts,
	// with as many work items: larger ones wait longer for each other.
	smallGroup = 128
	// largeGroup is that in long contexts, where a device has room for it. Of 512 they
	// were slower behind 2048 tokens.
	largeGroup = 256
	// maxSmallSplits is how many parts small groups make at most where large ones are to be
	// had.
	maxSmallSplits = 2
	// unitThreads are the work items of attention for which a compute unit has room.
	unitThreads = 256
	// maxSplits is into how many parts attention divides the context at most.
	maxSplits = 32
)

// contextSplit is how attention of one token divides the context.
type contextSplit struct {
	size  int // of a group: index of oneToken.sizes
	parts int
}

// attendGroups returns which groups attention of one token has.
func (n *Network) attendGroups() []int {
	info, sizes := &n.context.Info, []int{smallGroup}
	// On CPUs work items are the iterations of a loop.
	if info.Kind == "GPU" && largeGroup <= info.MaxGroup && n.attendLocal(largeGroup) <= info.LocalMemory {
		sizes = append(sizes, largeGroup)
	}
	return sizes
}

// attendLocal returns what a group has in local memory at most, see
// hetero/opencl/kernels/attend.cl: parts of the sums, of which each work item has 16,
// three numbers of its own, and what it holds of a query, key and value.
func (n *Network) attendLocal(size int) int64 {
	dims := (n.spec.HeadDim + 15) / 16 * 16
	return int64(4*size*(16+3) + 40*dims)
}

// makeAttendOne makes the kernels of a layer's attention for each size of groups.
func (n *Network) makeAttendOne(l int) (kernels []*opencl.Kernel, err error) {
	s, t, y := n.spec, &n.one, &n.layers[l]
	spec := &s.Layers[l]
	for i, size := range slices.Clone(t.sizes) {
		k, err := n.context.Kernel("attend.cl", fmt.Sprintf("%s -DONE=%d", n.layerOptions(spec), size), "attend_one")
		if err != nil {
			return nil, err
		}
		most, err := k.MaxGroup()
		if err == nil && most < size && i > 0 { // how many registers it needs is known only now
			t.sizes = t.sizes[:i]
			return kernels, k.Close()
		}
		if err != nil {
			return nil, errors.Join(err, k.Close())
		}
		n.own(k)
		kernels = append(kernels, k)
		err = k.Set(t.memory, t.memory /* until a text is bound */, t.qkv, n.angleOffset(spec, 1, stateFloats), y.qGain, y.kGain,
			s.Norm.Eps, s.AttnScale, spec.Window, t.sums, t.states)
		if err != nil {
			return nil, err
		}
	}
	return kernels, nil
}

// attendOne starts attention of one token in a layer.
func (n *Network) attendOne(kernels []*opencl.Kernel) error {
	d := n.one.split
	size := n.one.sizes[d.size]
	global, local := [2]int{n.spec.Heads * size, d.parts}, [2]int{size, 1}
	return n.context.Launch(kernels[d.size], global[:], local[:])
}

// splitFor returns how attention divides a context of so many tokens.
func (n *Network) splitFor(tokens int) contextSplit {
	if n.one.forcedSplit != nil {
		return *n.one.forcedSplit
	}
	var d contextSplit
	for d.size+1 < len(n.one.sizes) && tokens > maxSmallSplits*n.one.sizes[d.size] {
		d.size++
	}
	size := n.one.sizes[d.size]
	// A group takes as many tokens at a time as it is large: it has full rounds, but for
	// the last.
	rounds := (tokens + size - 1) / size
	groups := n.context.Info.ComputeUnits * max(1, unitThreads/size) // at the same time
	useful := min(max(1, groups/n.spec.Heads), maxSplits)
	each := (rounds + useful - 1) / useful
	d.parts = (rounds + each - 1) / each
	return d
}

// setSplit makes attention divide the context in some way.
func (n *Network) setSplit(d contextSplit) error {
	t := &n.one
	if d == t.split {
		return nil
	}
	if err := n.dropRecording(); err != nil {
		return err
	}
	if d.parts != t.split.parts {
		t.split.parts = 0 // a failure on the way leaves some kernels at another number
		for l := range n.layers {
			if err := n.layers[l].one.o.SetSplits(d.parts); err != nil {
				return err
			}
		}
	}
	t.split = d
	return nil
}
