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

// Processor opens networks on a device.
type Processor struct {
	Device string // as in opencl.Options
	// Layers is how many of a model's last layers the device computes, with the output
	// matrix: 0 for as many as there is room for, All for no fewer than all.
	Layers int
	Memory int64           // as in opencl.Options
	Trace  *trace.Recorder // nil: nothing is traced
	// Opened, if set, is told of each network that was opened.
	Opened func(*Network)
}

// Open makes ready for a network. See exec.Processor.
func (p Processor) Open(o *exec.Offer) (exec.Network, error) {
	if err := checkSupported(o.Spec); err != nil {
		return nil, err
	}
	c, err := opencl.Open(opencl.Options{Device: p.Device, Budget: o.Budget, Memory: p.Memory})
	if err != nil {
		return nil, err
	}
	n := &Network{spec: o.Spec, context: c, chunk: o.Chunk}
	if err := n.allocateOne(); err != nil {
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

// Network is the last layers of a model on a device, or all. See exec.Network.
type Network struct {
	spec    *arch.Spec // with the layers that are on the device
	first   int        // of them, in the model
	context *opencl.Context
	chunk   int
	owned   []closer // memory, products and kernels, in the order of their making
	layers  []layer
	loaded  int // layers, and the ends
	head    *opencl.GEMV
	// The norm before the output matrix, of the memory of one token, and that matrix.
	endGain   int
	endMatrix *opencl.WeightMatrix
	matrices  []*opencl.WeightMatrix // all there are
	weights   int64                  // bytes on the device
	needed    int64                  // bytes there, with a text as long as there is room for
	// ops are multiplications and additions with weights for one token; lastOps are
	// those of the end of the last layer and of the output matrix, which few tokens need.
	ops, lastOps int64

	one    oneToken
	many   manyTokens
	replay replay
	// bound is the text whose memory the kernels' arguments point to.
	bound *sequence
	// inputErr is why Input had no memory for a chunk, until Read tells it.
	inputErr error
}

// closer is what a network owns.
type closer interface{ Close() error }

// memoryCloser makes memory a closer.
type memoryCloser struct{ *opencl.Memory }

func (f memoryCloser) Close() error { return f.Free() }

// own remembers what is to be given back.
func (n *Network) own(c closer) { n.owned = append(n.owned, c) }

// alloc makes a buffer that lives as long as the network.
func (n *Network) alloc(purpose tiering.Purpose, size int) (*opencl.Memory, error) {
	m, err := n.context.Alloc(purpose, size)
	if err == nil {
		n.own(memoryCloser{m})
	}
	return m, err
}

// Context returns the device.
func (n *Network) Context() *opencl.Context { return n.context }

// WeightBytes returns what the weights take on the device, all of which one token
// reads.
func (n *Network) WeightBytes() int64 { return n.weights }

// Ops returns how many multiplications and additions with weights a prompt's token
// takes, and how many more one whose logits are wanted.
func (n *Network) Ops() (each, wanted int64) { return n.ops - n.lastOps, n.lastOps }

// Close gives everything back. Texts must have been closed.
func (n *Network) Close() error {
	return errors.Join(n.dropRecording(), n.releaseFrom(0), n.context.Close())
}

// releaseFrom gives back what was made since there were so many things.
func (n *Network) releaseFrom(mark int) error {
	var err error
	for i := len(n.owned) - 1; i >= mark; i-- {
		err = errors.Join(err, n.owned[i].Close())
	}
	n.owned = n.owned[:mark]
	return err
}

// maxKVHeads returns the greatest number of key heads of any layer.
func (n *Network) maxKVHeads() int {
	most := 0
	for _, l := range n.spec.Layers {
		most = max(most, l.KVHeads)
	}
	return most
}

// qkvWidth returns the elements of a token's queries, keys and values in a layer.
func (n *Network) qkvWidth(kvHeads int) int { return (n.spec.Heads + 2*kvHeads) * n.spec.HeadDim }

// angleFloats returns the elements of a token's angles of all rotations.
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

// layerOptions returns what the kernels of a layer are built with.
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

// attentionTile returns how many queries and keys attention of many tokens takes
// at a time: what fits into the local memory of a group.
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

// maxLocal is the most local memory that a group takes: what lets others run beside
// it.
const maxLocal = 40 << 10

// gateOp returns what a product of gates and what they let through does.
func gateOp(a arch.Activation) opencl.OutputOp {
	return [...]opencl.OutputOp{arch.SiLU: opencl.SiLUPairs, arch.GELUTanh: opencl.GELUTanhPairs, arch.GELUErf: opencl.GELUErfPairs}[a]
}

// bitsOf is how integers get into a buffer of floats.
func bitsOf(i int) float32 { return math.Float32frombits(uint32(int32(i))) }
