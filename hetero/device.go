package hetero

import (
	"runtime"
	"time"

	"github.com/llmrun/llmrun/quant"
)

// Kind is the class of a device. Plans do not depend on it: Capabilities say what a
// device can do.
type Kind uint8

// The kinds of devices.
const (
	CPU Kind = iota
	GPU
	NPU
)

// String returns the name that tables show.
func (k Kind) String() string { return [...]string{"CPU", "GPU", "NPU"}[k] }

// Capabilities describe a device to a planner.
type Capabilities struct {
	Name      string // as the driver reports it
	Driver    string // version; "" where Name alone determines performance
	Kind      Kind
	Simulated bool // time is virtual: measurements do not describe this machine
	// Static: a kernel runs for exactly the number of tokens that it was prepared
	// for, and preparing takes long, so it must be done ahead.
	Static bool
	// SharesMemory: the device reads and writes the pages of a Buffer in place and
	// sees other devices' writes, so that Flush and Fetch cost nothing. Otherwise a
	// plan includes their cost.
	SharesMemory bool
	// FixedScale: matmuls of Q8_0 weights quantize activations with Op.Scale and
	// clip them, so that the outlier path can add what was clipped.
	FixedScale bool
	// Memory is how many bytes of kernels and attached buffers the device can
	// address at once; 0 means no limit below the machine's memory.
	Memory int64
}

// Op is a matmul: y[tokens, rows] = x[tokens, cols] · weights[rows, cols]ᵀ. Devices
// differ in numerical error; see Kernel.Tolerance.
type Op struct {
	Tokens, Rows, Cols int
	Type               quant.Type
	Weights            []byte // [Rows, Cols] in Type; the device may convert the layout
	// Streamed asks a device that holds one operand stationary and streams the
	// other to stream the weights: [[rows, cols]·[cols, tokens]]ᵀ. The result is
	// the same.
	Streamed bool
	// Scale is the calibrated step of 8-bit activations, or 0. A device with
	// per-tensor int8 activations quantizes with it and clips values beyond ±127
	// steps; without Scale it uses the maximum of each token. Other devices ignore
	// it.
	Scale float32
}

// Device computes matmuls. Prepare, Attach, Flush and Fetch may take long and are
// called from one goroutine at a time; Kernel.Submit does not wait for its work.
type Device interface {
	Capabilities() Capabilities
	// Prepare makes a matmul ready: it builds the graph or compiles the program and
	// converts the weights to the device's layout. op.Weights must stay unchanged
	// until the kernel is closed if the device still reads them.
	Prepare(op Op) (Kernel, error)
	// Attach makes a buffer usable in Submit until the device is closed.
	Attach(b *Buffer) error
	// Flush makes the host's writes to a buffer visible to the device, FlushRows
	// those to rows of n elements. Fetch makes the device's writes visible to the
	// host. There are no other copies. Fetch changes only elements that the device
	// wrote since the last Flush or Fetch: the host may have written beside them,
	// as in a row split. Flush discards device writes that were not fetched;
	// FlushRows discards only those inside its rows.
	Flush(b *Buffer) error
	FlushRows(v View, rows, n int) error
	Fetch(b *Buffer) error
	// Clock is the clock of the device's work.
	Clock() Clock
	// Close releases the device. Its kernels must be closed before.
	Close() error
}

// Kernel is a prepared matmul. Kernels of one device run in the order of their
// submission, and each sees the writes of those before it.
type Kernel interface {
	// Submit starts the matmul and returns. x and y must stay valid until the
	// ticket is done; their buffers must be attached to the device.
	Submit(x, y View) (Ticket, error)
	// Bytes is the device memory that the kernel holds. A kernel that holds none
	// reads Op.Weights in place.
	Bytes() int64
	// Tolerance bounds the error of an element of y against exact arithmetic on the
	// stored weights: at most Tolerance × max|x of its token| × Σ|w of its row|.
	// For a device that quantizes with Op.Scale, the maximum is at least 127 ×
	// Scale, and clipped values are excluded.
	Tolerance() float64
	// Close releases the kernel's memory. Its tickets must be done.
	Close() error
}

// Elastic is implemented by kernels of devices that are not Static: they accept
// fewer tokens than they were prepared for.
type Elastic interface {
	Kernel
	SubmitSome(tokens int, x, y View) (Ticket, error)
}

// Ticket is submitted work. It stays valid for the next dozens of submissions to
// the same device; after that it may stand for one of those.
type Ticket interface {
	// Done reports whether the work is complete. It costs one load: devices set a
	// flag beside the output after all of it is written.
	Done() bool
	// Wait blocks in the driver until the work is complete, which costs more than
	// polling at the right moment: see Await.
	Wait() error
}

// Timed is implemented by tickets of devices that record execution times.
type Timed interface {
	Ticket
	// Ran returns when completed work began and ended, by the device's clock.
	Ran() (begin, end time.Duration)
}

// Clock reads time and lets it pass. A simulated device has its own clock.
type Clock interface {
	Now() time.Duration // since a fixed moment
	Sleep(d time.Duration)
}

// Await waits for work that was predicted to end at a moment of the clock: it
// sleeps until just before, then polls. It does not sleep less than grain, the
// shortest sleep that the system delivers. A prediction that is too early costs
// polling, one that is too late costs time.
//
// Between polls Await yields to other goroutines, since they may do the work.
//
// Failed work is done too. Await returns the error of Wait, which no longer blocks
// then.
func Await(c Clock, t Ticket, at, grain time.Duration) error {
	if ahead := at - c.Now() - grain; ahead > grain {
		c.Sleep(ahead)
	}
	for looks := 1; !t.Done(); looks++ {
		if looks%pollsPerYield == 0 {
			runtime.Gosched()
		}
	}
	return t.Wait()
}

// pollsPerYield is how many polls of a few nanoseconds cost about as much as one
// yield with no other goroutine to run.
const pollsPerYield = 16
