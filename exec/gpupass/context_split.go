package gpupass

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/hetero/opencl"
)

// Attention of one token splits the context so that all compute units are busy. But
// each group of the output GEMV reads the results of all splits. So long contexts
// have few splits with large groups.

const (
	// smallGroup is the number of tokens and work items per attention group in
	// short contexts: larger groups synchronize more slowly.
	smallGroup = 128
	// largeGroup is the same for long contexts, on devices that allow it. Groups of
	// 512 were slower at 2048 tokens.
	largeGroup = 256
	// maxSmallSplits is the largest number of splits with small groups where large
	// groups are available.
	maxSmallSplits = 2
	// unitThreads is the number of attention work items that fit on a compute unit.
	unitThreads = 256
	// maxSplits bounds the number of splits.
	maxSplits = 32
)

// contextSplit is how attention of one token splits the context.
type contextSplit struct {
	size  int // of a group: index of singleMemory.sizes
	parts int
}

// attendGroups returns the group sizes for attention of one token.
func (n *Network) attendGroups() []int {
	info, sizes := &n.context.Info, []int{smallGroup}
	// On CPUs work items are loop iterations.
	if info.Kind == "GPU" && largeGroup <= info.MaxGroup && n.attendLocal(largeGroup) <= info.LocalMemory {
		sizes = append(sizes, largeGroup)
	}
	return sizes
}

// attendLocal returns an upper bound of a group's local memory, see
// hetero/opencl/kernels/attend.cl: per work item 16 partial sums and three numbers,
// and a query, key and value.
func (n *Network) attendLocal(size int) int64 {
	dims := (n.spec.HeadDim + 15) / 16 * 16
	return int64(4*size*(16+3) + 40*dims)
}

// makeAttendSingle creates a layer's attention kernels, one per group size.
func (n *Network) makeAttendSingle(l int) (kernels []*opencl.Kernel, err error) {
	s, t, y := n.spec, &n.single, &n.layers[l]
	spec := &s.Layers[l]
	for i, size := range slices.Clone(t.sizes) {
		k, err := n.context.Kernel("attend.cl", fmt.Sprintf("%s -DONE=%d", n.layerOptions(spec), size), "attend_single")
		if err != nil {
			return nil, err
		}
		most, err := k.MaxGroup()
		if err == nil && most < size && i > 0 { // the kernel's register use is known only after the build
			t.sizes = t.sizes[:i]
			return kernels, k.Close()
		}
		if err != nil {
			return nil, errors.Join(err, k.Close())
		}
		n.own(k)
		kernels = append(kernels, k)
		err = k.Set(t.memory, t.memory /* until a sequence is bound */, t.qkv, n.angleOffset(spec, 1, stateFloats), y.qGain, y.kGain,
			s.Norm.Eps, s.AttnScale, spec.Window, t.sums, t.states)
		if err != nil {
			return nil, err
		}
	}
	return kernels, nil
}

// attendSingle launches attention of one token in a layer.
func (n *Network) attendSingle(kernels []*opencl.Kernel) error {
	d := n.single.split
	size := n.single.sizes[d.size]
	global, local := [2]int{n.spec.Heads * size, d.parts}, [2]int{size, 1}
	return n.context.Launch(kernels[d.size], global[:], local[:])
}

// splitFor returns the split of a context of a number of tokens.
func (n *Network) splitFor(tokens int) contextSplit {
	if n.single.forcedSplit != nil {
		return *n.single.forcedSplit
	}
	var d contextSplit
	for d.size+1 < len(n.single.sizes) && tokens > maxSmallSplits*n.single.sizes[d.size] {
		d.size++
	}
	size := n.single.sizes[d.size]
	// In each round, a group computes as many tokens as it has work items. All
	// rounds but the last are full.
	rounds := (tokens + size - 1) / size
	groups := n.context.Info.ComputeUnits * max(1, unitThreads/size) // that run at the same time
	useful := min(max(1, groups/n.spec.Heads), maxSplits)
	each := (rounds + useful - 1) / useful
	d.parts = (rounds + each - 1) / each
	return d
}

// setSplit applies a split to the kernels.
func (n *Network) setSplit(d contextSplit) error {
	t := &n.single
	if d == t.split {
		return nil
	}
	if err := n.dropRecording(); err != nil {
		return err
	}
	if d.parts != t.split.parts {
		t.split.parts = 0 // invalid until all kernels are updated
		for l := range n.layers {
			if err := n.layers[l].single.o.SetSplits(d.parts); err != nil {
				return err
			}
		}
	}
	t.split = d
	return nil
}
