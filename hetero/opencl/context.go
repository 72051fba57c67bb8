package opencl

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/tiering"
)

// Options select the device to open and its limits.
type Options struct {
	// Device is an index in List or part of a name; "" is the first device.
	Device string
	// Budget is charged for memory of the machine: all buffers of a device that
	// shares the machine's memory, staging buffers of other devices. nil: no
	// accounting.
	Budget *tiering.Budget
	// Memory, if set, lowers the limit of the device's memory.
	Memory int64
}

// Context is an open device with an in-order queue. One goroutine at a time may call
// its methods and those of its buffers, kernels and graphs.
type Context struct {
	Info Info
	// SharesMemory: the device uses memory of the machine in place, and host and
	// device see each other's writes without a command. The driver reports the
	// property, and Open tests it. Without it, commands copy memory to the device.
	SharesMemory bool
	// Weights selects how kernels of weight matrices that are created from now on
	// read codes. A matrix that is too large for an image uses a buffer. Open sets
	// Weights from the environment, see WeightsVariable.
	Weights Source
	// Arithmetic applies to GEMM kernels that are created from now on. Open sets it
	// from the environment, see ArithmeticVariable.
	Arithmetic Arithmetic
	// Graphs selects how recordings run. Open sets it from the environment and the
	// driver, see GraphsVariable and OpenGraphs.
	Graphs Graphs

	budget           *tiering.Budget
	context, queue   uintptr
	programs         map[string]uintptr
	memories         int
	stats            Stats
	tracer           *tracer
	cuda             *cudaContext      // nil unless CUDA runs graphs
	recording        *Graph            // records commands instead of submitting them, if not nil
	busy             bool              // commands were submitted since the last wait for the whole queue
	maxGroupOverride func(*Kernel) int // set by tests instead of the driver's limit, see MaxGroup

	// Operands of driver calls. They are fields so that calls do not allocate.
	global, local [3]uintptr
	region        [3]uintptr
	event         uintptr
	code          int32
	argument      uint32
	bytes         []byte // destination or source of a copy, owned by the caller
	args          [16]uintptr
}

// do is status without allocations. Arguments must point into the context or to
// memory outside Go's heap, because do does not prevent the move of a stack.
func (c *Context) do(e entry, args ...uintptr) error {
	n := copy(c.args[:], args)
	if code := int32(call(functions[e], c.args[:n]...)); code != 0 {
		return &Error{entryNames[e], code}
	}
	return nil
}

// Stats count the commands of a device.
type Stats struct {
	Launches   int64         `json:"launches"`
	Arguments  int64         `json:"arguments"` // kernel arguments set
	Writes     int64         `json:"writes"`
	WriteBytes int64         `json:"write_bytes"`
	Reads      int64         `json:"reads"`
	ReadBytes  int64         `json:"read_bytes"`
	Copies     int64         `json:"copies"`    // from device memory to device memory
	Waits      int64         `json:"waits"`     // of the host for the device
	Waited     time.Duration `json:"waited_ns"` // total time of the waits
	Graphs     int64         `json:"graphs"`    // launched graphs; their contents are counted too
	Held       int64         `json:"held_bytes"`
	Images     int64         `json:"images"` // images that matmuls read codes from
}

// Since returns the counts since an earlier call of Context.Stats.
func (s Stats) Since(before Stats) Stats {
	s.Launches -= before.Launches
	s.Arguments -= before.Arguments
	s.Writes -= before.Writes
	s.WriteBytes -= before.WriteBytes
	s.Reads -= before.Reads
	s.ReadBytes -= before.ReadBytes
	s.Copies -= before.Copies
	s.Waits -= before.Waits
	s.Waited -= before.Waited
	s.Graphs -= before.Graphs
	return s
}

// Open opens a device. If no device matches o.Device, the error also lists the
// drivers that failed.
func Open(o Options) (*Context, error) {
	list, failed := List()
	if len(list) == 0 {
		return nil, failed
	}
	info, err := selectDevice(list, o.Device)
	if err != nil {
		return nil, errors.Join(err, failed) // the requested device may be among the failed ones
	}
	weights, err := sourceOf(os.Getenv(WeightsVariable))
	if err != nil {
		return nil, err
	}
	arithmetic, err := arithmeticOf(os.Getenv(ArithmeticVariable), &info)
	if err != nil {
		return nil, err
	}
	graphs, err := graphsOf(os.Getenv(GraphsVariable))
	if err != nil {
		return nil, err
	}
	if o.Memory > 0 {
		info.Memory, info.MaxAllocation = min(info.Memory, o.Memory), min(info.MaxAllocation, o.Memory)
	}
	if o.Budget == nil {
		o.Budget = tiering.New(0)
	}
	c := &Context{Info: info, Weights: weights, Arithmetic: arithmetic, Graphs: graphs, budget: o.Budget, programs: map[string]uintptr{}}
	c.context = call(functions[clCreateContext], 0, 1, uintptr(unsafe.Pointer(&c.Info.device)), 0, 0, uintptr(unsafe.Pointer(&c.code)))
	if err := c.created(clCreateContext); err != nil {
		return nil, err
	}
	if err := c.openQueue(0); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if info.HostUnified {
		if c.SharesMemory, err = c.probeSharing(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// UseBudget charges memory that is allocated from now on to another budget.
func (c *Context) UseBudget(b *tiering.Budget) { c.budget = b }

// parseChoice returns the choice that an environment variable names, or usual if the
// variable is unset.
func parseChoice[T fmt.Stringer](variable, name string, usual T, ways ...T) (way T, err error) {
	if name == "" {
		return usual, nil
	}
	var names []string
	for _, way := range ways {
		if name == way.String() {
			return way, nil
		}
		names = append(names, way.String())
	}
	last := len(names) - 1
	return way, fmt.Errorf("opencl: %s is %q: use %s or %s", variable, name, strings.Join(names[:last], ", "), names[last])
}

// created returns the error of the last creation call.
func (c *Context) created(e entry) error {
	if c.code != 0 {
		return &Error{entryNames[e], c.code}
	}
	return nil
}

func (c *Context) openQueue(properties uintptr) error {
	c.queue = call(functions[clCreateCommandQueue], c.context, c.Info.device, properties, uintptr(unsafe.Pointer(&c.code)))
	return c.created(clCreateCommandQueue)
}

// Close closes the device. The caller closes its memory and kernels first; otherwise
// Close returns an error.
func (c *Context) Close() error {
	var err error
	if c.memories > 0 {
		err = fmt.Errorf("opencl: %s: closed while %d buffers are open", c.Info.Name, c.memories)
	}
	err = errors.Join(err, c.tracer.finish())
	c.tracer = nil
	err = errors.Join(err, c.cuda.close())
	c.cuda = nil
	for key, p := range c.programs {
		err = errors.Join(err, status(clReleaseProgram, p))
		delete(c.programs, key)
	}
	if c.queue != 0 {
		err = errors.Join(err, status(clReleaseCommandQueue, c.queue))
	}
	if c.context != 0 {
		err = errors.Join(err, status(clReleaseContext, c.context))
	}
	c.queue, c.context = 0, 0
	return err
}

// Stats returns the counts so far.
func (c *Context) Stats() Stats { return c.stats }

// Launch starts a kernel on global work items in groups of local, and returns. Both
// have the same number of dimensions, up to three.
func (c *Context) Launch(k *Kernel, global, local []int) error {
	return c.launch(k, global, local, false)
}

// launch is Launch with an optional event. It stores the event in c.event, and the
// caller releases it.
func (c *Context) launch(k *Kernel, global, local []int, event bool) error {
	if c.recording != nil {
		return c.recording.launch(k, global, local)
	}
	for i := range global {
		c.global[i], c.local[i] = uintptr((global[i]+local[i]-1)/local[i]*local[i]), uintptr(local[i])
	}
	c.stats.Launches++
	c.busy = true
	err := c.do(clEnqueueNDRangeKernel, c.queue, k.handle, uintptr(len(global)), 0,
		uintptr(unsafe.Pointer(&c.global)), uintptr(unsafe.Pointer(&c.local)), 0, 0, c.eventPointer(event || c.tracer != nil))
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	if event && c.tracer != nil { // the tracer releases it too
		if err := status(clRetainEvent, c.event); err != nil {
			return err
		}
	}
	c.traced(k.name)
	return nil
}

// eventPointer returns the address that receives a command's event, 0 for none. The
// context is on the heap, so the address does not change.
func (c *Context) eventPointer(wanted bool) uintptr {
	if !wanted {
		return 0
	}
	return uintptr(unsafe.Pointer(&c.event))
}

// Flush passes submitted commands to the device.
func (c *Context) Flush() error { return c.do(clFlush, c.queue) }

// Finish waits until all submitted commands are done.
func (c *Context) Finish() error {
	start := time.Now()
	err := c.do(clFinish, c.queue)
	c.drained(start)
	return err
}

// drained records a wait that emptied the queue.
func (c *Context) drained(start time.Time) {
	c.busy = false
	c.waited(start)
}

// waited records a wait and reads the times of the commands before it.
func (c *Context) waited(start time.Time) {
	took := time.Since(start)
	c.stats.Waits++
	c.stats.Waited += took
	c.tracer.collect(took)
}

// SetTrace records a span for every command, with the device's times, on a separate
// lane of r. If r is nil, SetTrace ends tracing and returns an error if times are
// missing. Tracing slows commands down.
func (c *Context) SetTrace(r *trace.Recorder) error {
	failed := c.tracer.finish()
	if err := c.Finish(); err != nil {
		return err
	}
	properties := uintptr(0)
	if r != nil {
		properties = queueProfiling
	}
	if err := status(clReleaseCommandQueue, c.queue); err != nil {
		return err
	}
	c.tracer = nil
	if err := errors.Join(failed, c.openQueue(properties)); err != nil || r == nil {
		return err
	}
	return c.startTrace(r)
}
