package opencl

import (
	"errors"
	"slices"

	"github.com/llmrun/llmrun/tiering"
)

// Graphs selects how recorded commands run.
type Graphs int

// The values of Graphs.
const (
	NoGraphs Graphs = iota // Record is not available
	// CUDAGraphs runs recordings as CUDA graphs, which NVIDIA's driver submits in one
	// step. A launch through OpenCL costs 4 to 6 µs on the host and 1 µs more on
	// the device.
	CUDAGraphs
	// EmulatedGraphs submits the recorded commands again with the recorded
	// arguments, for tests on other devices.
	EmulatedGraphs
)

// GraphsVariable is the environment variable that selects how recordings run:
// "cuda" (the default, where the driver supports it) or "none".
const GraphsVariable = "LLMRUN_OPENCL_GRAPHS"

// String returns the name.
func (g Graphs) String() string {
	return [...]string{NoGraphs: "none", CUDAGraphs: "cuda", EmulatedGraphs: "emulated"}[g]
}

// MarshalText returns String, for reports.
func (g Graphs) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// graphsOf returns the value that the environment selects.
func graphsOf(name string) (Graphs, error) {
	return parseChoice(GraphsVariable, name, CUDAGraphs, CUDAGraphs, NoGraphs)
}

// RecordableGranularity is the granularity of memory for recorded commands.
const RecordableGranularity = 2 << 20

// recordableFiles are the sources whose kernels, built for CUDA graphs, read their
// group index from hardware registers. See kernels/common.cl.
var recordableFiles = []string{"attend.cl", "matvec.cl"}

var (
	errNoGraphs      = errors.New("opencl: the device's driver does not support graphs")
	errNotRecordable = errors.New("opencl: the kernel cannot be recorded")
	errNotShared     = errors.New("opencl: a recorded command uses memory that AllocRecordable did not allocate")
)

// OpenGraphs enables recordings with kernels that are created from now on and memory
// from AllocRecordable. If the driver has no graphs, or OpenCL and CUDA cannot share
// memory, it sets Graphs to NoGraphs and returns the reason; everything except
// Record still works.
func (c *Context) OpenGraphs() (err error) {
	if c.Graphs != CUDAGraphs || c.cuda != nil {
		return nil
	}
	if c.cuda, err = openCUDA(&c.Info); err != nil {
		c.Graphs = NoGraphs
	}
	return err
}

// CanRecord reports whether Record is available. It is not during tracing, because a
// graph does not report the times of its commands.
func (c *Context) CanRecord() bool {
	return c.tracer == nil && (c.cuda != nil || c.Graphs == EmulatedGraphs)
}

// AllocRecordable allocates memory that recorded commands can use. It rounds the size
// up to a multiple of RecordableGranularity. If recording is not possible, or if the
// rounded size does not fit, it calls Alloc.
func (c *Context) AllocRecordable(purpose tiering.Purpose, size int) (*Memory, error) {
	if c.cuda != nil && c.checkFits(size, roundUp(size, RecordableGranularity)) == nil {
		if m, err := c.allocShared(size); err == nil {
			return m, nil
		}
	}
	return c.Alloc(purpose, size)
}

// argument is a kernel argument: memory, or the bits of a number.
type argument struct {
	memory *Memory
	bits   uint32
}

// recordArgument stores an argument for recordings.
func (k *Kernel) recordArgument(i int, a argument) {
	if k.unrecordable != nil {
		return
	}
	for len(k.arguments) <= i {
		k.arguments = append(k.arguments, argument{})
	}
	k.arguments[i] = a
}

// prepareRecording makes a new kernel recordable. The error is the reason why that is
// not possible.
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

// graphOptions returns the build options of a file's kernels.
func (c *Context) graphOptions(file string) string {
	if c.cuda != nil && slices.Contains(recordableFiles, file) {
		return " -DGRAPHS"
	}
	return ""
}
