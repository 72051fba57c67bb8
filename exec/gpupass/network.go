package gpupass

import (
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// Accelerator opens networks on a device.
type Accelerator struct {
	// Context is an open device; nil opens one. The caller closes it, after the networks.
	Context *opencl.Context
	Device  string // as in opencl.Options
	// Layers is how many of a model's last layers the device computes, besides the
	// output matrix: 0 for as many as fit, All to require all.
	Layers int
	Memory int64           // as in opencl.Options
	Trace  *trace.Recorder // nil: no trace
	// Opened, if set, is called with each opened network.
	Opened func(*Network)
}

// Open prepares a network for a model. See exec.Accelerator.
func (p Accelerator) Open(o *exec.Offer) (exec.Network, error) {
	if err := checkSupported(o.Spec); err != nil {
		return nil, err
	}
	c, err := p.Context, error(nil)
	if c != nil {
		c.UseBudget(o.Budget)
	} else if c, err = opencl.Open(opencl.Options{Device: p.Device, Budget: o.Budget, Memory: p.Memory}); err != nil {
		return nil, err
	}
	n := &Network{spec: o.Spec, context: c, borrowed: p.Context != nil, chunk: o.Chunk}
	if err := n.allocateSingle(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if err := n.placeLayers(o, p.Layers); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if p.Trace != nil {
		if err := c.SetTrace(p.Trace); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	if p.Opened != nil {
		p.Opened(n)
	}
	return n, nil
}

// Network is the last layers of a model, or all, on a device. See exec.Network.
type Network struct {
	spec    *arch.Spec // with the device's layers only
	first   int        // index of the first layer in the model
	context *opencl.Context
	// borrowed: the caller of Accelerator.Open closes the context.
	borrowed bool
	chunk    int
	owned    []closer // memory, matrices and kernels, in order of creation
	layers   []layer
	loaded   int // layers, and the output matrix
	head     *opencl.GEMV
	// The norm before the output matrix, as an element of single.memory, and the
	// matrix.
	endGain   int
	endMatrix *opencl.WeightMatrix
	matrices  []*opencl.WeightMatrix // all of them
	weights   int64                  // bytes on the device
	needed    int64                  // device bytes with a sequence of maximal length
	host      hostMemory
	// ops are the multiplications and additions with weights per token. lastOps is
	// the part in the last layer's pruned steps and the output matrix, which few
	// tokens need.
	ops, lastOps int64

	single singleMemory
	batch  batchMemory
	replay replay
	// bound is the sequence that the kernels' arguments refer to.
	bound *sequence
	// inputErr is why Input had no memory for a chunk; Read returns it.
	inputErr error
}

// closer is a resource of the network.
type closer interface{ Close() error }

// memoryCloser adapts memory to closer.
type memoryCloser struct{ *opencl.Memory }

func (f memoryCloser) Close() error { return f.Free() }

// own registers a resource for Close.
func (n *Network) own(c closer) { n.owned = append(n.owned, c) }

// alloc allocates a buffer that lives as long as the network.
func (n *Network) alloc(purpose tiering.Purpose, size int) (*opencl.Memory, error) {
	m, err := n.context.Alloc(purpose, size)
	if err == nil {
		n.own(memoryCloser{m})
	}
	return m, err
}

// Context returns the device.
func (n *Network) Context() *opencl.Context { return n.context }

// WeightBytes returns the device bytes of the weights, all of which each token
// reads.
func (n *Network) WeightBytes() int64 { return n.weights }

// Ops returns the multiplications and additions with weights per prompt token, and
// the additional ones of a token whose logits are wanted.
func (n *Network) Ops() (each, wanted int64) { return n.ops - n.lastOps, n.lastOps }

// Close frees all resources. Close sequences first.
func (n *Network) Close() error {
	err := errors.Join(n.dropRecording(), n.releaseFrom(0))
	if n.borrowed {
		return errors.Join(err, n.context.SetTrace(nil))
	}
	return errors.Join(err, n.context.Close())
}

// releaseFrom frees the resources registered since mark.
func (n *Network) releaseFrom(mark int) error {
	var err error
	for i := len(n.owned) - 1; i >= mark; i-- {
		err = errors.Join(err, n.owned[i].Close())
	}
	n.owned = n.owned[:mark]
	return err
}

// maxKVHeads returns the largest number of KV heads of a layer.
func (n *Network) maxKVHeads() int {
	most := 0
	for _, l := range n.spec.Layers {
		most = max(most, l.KVHeads)
	}
	return most
}

// qkvWidth returns the elements of a token's queries, keys and values in a layer.
func (n *Network) qkvWidth(kvHeads int) int { return (n.spec.Heads + 2*kvHeads) * n.spec.HeadDim }

// angleFloats returns the elements of a token's RoPE angles of all rotations.
func (n *Network) angleFloats() int {
	sum := 0
	for i := range n.spec.Ropes {
		sum += n.spec.Ropes[i].Dim
	}
	return sum
}

// ropeDim returns how many elements of a head a layer rotates.
func (n *Network) ropeDim(l *arch.LayerSpec) int {
	if l.Rope < 0 || len(n.spec.Ropes) == 0 {
		return 0
	}
	return n.spec.Ropes[l.Rope].Dim
}

// layerOptions returns the build options of a layer's kernels.
func (n *Network) layerOptions(l *arch.LayerSpec) string {
	s := n.spec
	interleave, norm := 0, 0
	if s.Interleave {
		interleave = 1
	}
	if s.QKNorm == arch.QKNormHead {
		norm = 1
	}
	queries, keys := n.attentionTile()
	return fmt.Sprintf("-DHEADS=%d -DKV_HEADS=%d -DHEAD_DIM=%d -DROPE_DIM=%d -DINTERLEAVE=%d -DQK_NORM=%d -DTILE_QUERIES=%d -DTILE_KEYS=%d",
		s.Heads, l.KVHeads, s.HeadDim, n.ropeDim(l), interleave, norm, queries, keys)
}

// attentionTile returns the tile size of attention over many tokens: the largest
// that fits into a group's local memory.
func (n *Network) attentionTile() (queries, keys int) {
	width := 4 * ((n.spec.HeadDim+15)/16*16 + 4)
	for _, t := range [][2]int{{32, 32}, {16, 32}, {16, 16}} {
		fits := int64((t[0]+t[1])*width+4*t[0]*(t[1]+1)) <= min(n.context.Info.LocalMemory, maxLocal)
		if fits && 8*t[0] <= n.context.Info.MaxGroup {
			return t[0], t[1]
		}
	}
	return 8, 8
}

// maxLocal bounds a group's local memory, so that several groups fit on a compute
// unit.
const maxLocal = 40 << 10

// gateOp returns the output operation of an interleaved gate and up matmul.
func gateOp(a arch.Activation) opencl.OutputOp {
	return [...]opencl.OutputOp{arch.SiLU: opencl.SiLUPairs, arch.GELUTanh: opencl.GELUTanhPairs, arch.GELUErf: opencl.GELUErfPairs}[a]
}

// bitsOf returns an integer's bits as a float, for a buffer of floats.
func bitsOf(i int) float32 { return math.Float32frombits(uint32(int32(i))) }
