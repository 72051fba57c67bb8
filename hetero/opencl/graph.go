package opencl

import (
	"errors"
	"slices"

	"github.com/llmrun/llmrun/tiering"
)

// Graphs is how recordings are run.
type Graphs int

// The ways.
const (
	NoGraphs Graphs = iota // not at all: nothing can be recorded
	// CUDAGraphs runs them as graphs of CUDA, which NVIDIA's driver submits at once, while
	// each launch of OpenCL's takes it 4 to 6 µs of the host and the device 1 µs more.
	CUDAGraphs
	// EmulatedGraphs submits what was recorded once more, with the arguments of then, for
	// tests on devices of others.
	EmulatedGraphs
)

// GraphsVariable is the environment variable that says how recordings are run: "cuda",
// as without it, where the driver can, or "none".
const GraphsVariable = "LLMRUN_OPENCL_GRAPHS"

// String names the way.
func (g Graphs) String() string {
	return [...]string{NoGraphs: "none", CUDAGraphs: "cuda", EmulatedGraphs: "emulated"}[g]
}

// MarshalText is String, for reports.
func (g Graphs) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// graphsOf finds the way that the environment asks for.
func graphsOf(name string) (Graphs, error) {
	return parseChoice(GraphsVariable, name, CUDAGraphs, CUDAGraphs, NoGraphs)
}

// RecordableGranularity is what memory for recorded commands comes in multiples of.
const RecordableGranularity = 2 << 20

// recordableFiles are the sources whose kernels ask the hardware which group they are,
// where CUDA runs graphs. See kernels/common.cl.
var recordableFiles = []string{"attend.cl", "matvec.cl"}

var (
	errNoGraphs      = errors.New("opencl: the device's driver runs no graphs")
	errNotRecordable = errors.New("opencl: the kernel is none of those that can be recorded")
	errNotShared     = errors.New("opencl: a recorded command uses memory that was not made for it")
)

// OpenGraphs gets ready for recordings, of kernels that are made from now on and memory
// from AllocRecordable. Where the driver has no graphs, or lets OpenCL and CUDA not have
// the same memory, Graphs is NoGraphs afterwards and the error says why: everything but
// Record does as well without.
func (c *Context) OpenGraphs() (err error) {
	if c.Graphs != CUDAGraphs || c.cuda != nil {
		return nil
	}
	if c.cuda, err = openCUDA(&c.Info); err != nil {
		c.Graphs = NoGraphs
	}
	return err
}

// CanRecord reports whether commands can be recorded: not while they are traced, because
// a graph has no times of its commands.
func (c *Context) CanRecord() bool {
	return c.tracer == nil && (c.cuda != nil || c.Graphs == EmulatedGraphs)
}

// AllocRecordable is Alloc of memory that recorded commands can use, if any can be recorded
// and there is room for it: it takes more, up to a multiple of RecordableGranularity.
func (c *Context) AllocRecordable(purpose tiering.Purpose, size int) (*Memory, error) {
	if c.cuda != nil && c.checkFits(size, roundUp(size, RecordableGranularity)) == nil {
		if m, err := c.allocShared(size); err == nil {
			return m, nil
		}
	}
	return c.Alloc(purpose, size)
}

// argument is one of a kernel's: memory, or a number's bits.
type argument struct {
	memory *Memory
	bits   uint32
}

// recordArgument keeps an argument for recordings.
func (k *Kernel) recordArgument(i int, a argument) {
	if k.unrecordable != nil {
		return
	}
	for len(k.arguments) <= i {
		k.arguments = append(k.arguments, argument{})
	}
	k.arguments[i] = a
}

// prepareRecording gets a kernel that was just made ready to be recorded, or tells why it
// cannot be.
func (k *Kernel) prepareRecording(file string, program uintptr) (err error) {
	switch c := k.context; {
	case !slices.Contains(recordableFiles, file):
		return errNotRecordable
	case c.cuda != nil:
		k.function, err = c.cuda.function(program, k.name)
		return err
	case c.Graphs != EmulatedGraphs:
		return errNoGraphs
	}
	return nil
}

// graphOptions returns what kernels of a file are built with.
func (c *Context) graphOptions(file string) string {
	if c.cuda != nil && slices.Contains(recordableFiles, file) {
		return " -DGRAPHS"
	}
	return ""
}
