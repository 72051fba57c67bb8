package gpupass

import (
	"errors"
	"math"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/trace"
)

// Processor opens networks on a device.
type Processor struct {
	Device string // as in opencl.Options
	// Layers is how many of a model's last layers the device computes, besides the
	// output matrix: 0 for as many as fit, All to require all.
	Layers int
	Memory int64           // as in opencl.Options
	Trace  *trace.Recorder // nil: no trace
	// Opened, if set, is called with each opened network.
	Opened func(*Network)
}

// Open prepares a network for a model. See exec.Processor.
func (p Processor) Open(o *exec.Offer) (exec.Network, error) {
	if err := checkSupported(o.Spec); err != nil {
		return nil, err
	}
	c, err := opencl.Open(opencl.Options{Device: p.Device, Budget: o.Budget, Memory: p.Memory})
	if err != nil {
		return nil, err
	}
	n := &Network{geometry: geometry{spec: o.Spec, context: c}, resources: resources{device: c}, chunk: o.Chunk}
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

// Network is the last layers of a model, or all, on a device. See exec.Network.
type Network struct {
	geometry
	resources

	first  int // index of the first layer in the model
	chunk  int
	layers []layer
	loaded int // layers, and the output matrix
	head   *opencl.GEMV
	// The norm before the output matrix, as an element of one.memory, and the
	// matrix.
	endGain   int
	endMatrix *opencl.WeightMatrix
	matrices  []*opencl.WeightMatrix // all of them
	weights   int64                  // bytes on the device
	needed    int64                  // device bytes with a sequence of maximal length
	// ops are the multiplications and additions with weights per token. lastOps is
	// the part in the last layer's pruned steps and the output matrix, which few
	// tokens need.
	ops, lastOps int64

	one    oneToken
	many   manyTokens
	replay replay
	// bound is the sequence that the kernels' arguments refer to.
	bound *sequence
	// inputErr is why Input had no memory for a chunk; Read returns it.
	inputErr error
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
	return errors.Join(n.dropRecording(), n.releaseFrom(0), n.context.Close())
}

// gateOp returns the output operation of an interleaved gate and up matmul.
func gateOp(a arch.Activation) opencl.OutputOp {
	return [...]opencl.OutputOp{arch.SiLU: opencl.SiLUPairs, arch.GELUTanh: opencl.GELUTanhPairs, arch.GELUErf: opencl.GELUErfPairs}[a]
}

// bitsOf returns an integer's bits as a float, for a buffer of floats.
func bitsOf(i int) float32 { return math.Float32frombits(uint32(int32(i))) }
