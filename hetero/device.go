package hetero

import (
	"runtime"
	"time"

	"github.com/llmrun/llmrun/quant"
)

// Kind is the class of a device, for display. Plans depend on Capabilities only.
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
	// for. Preparing takes long, so the caller prepares kernels before it needs them.
	Static bool
	// SharesMemory: the device reads and writes the pages of a Buffer in place and
	// sees the writes of other devices, so Flush and Fetch take no time. For other
	// devices, plans include the time of these copies.
	SharesMemory bool
	// FixedScale: matmuls of Q8_0 weights quantize activations with Op.Scale and clip
	// them. The outlier path then adds the clipped parts.
	FixedScale bool
	// Memory limits the bytes of kernels and attached buffers at a time; 0 means no
	// limit besides the machine's memory.
	Memory int64
}

// Op is a matmul: y[tokens, rows] = x[tokens, cols] · weights[rows, cols]ᵀ. Devices
// differ in numerical error; see Kernel.Tolerance.
type Op struct {
	Tokens, Rows, Cols int
	Type               quant.Type
	Weights            []byte // [Rows, Cols] in Type; the device may convert the layout
	// Streamed applies to devices that hold one operand stationary and stream the
	// other. It selects the weights as the streamed operand: [[rows, cols]·[cols,
	// tokens]]ᵀ. The result is the same.
	Streamed bool
	// Scale is the calibrated step of 8-bit activations, or 0. A device with
	// per-tensor int8 activations quantizes with it and clips values beyond ±127
	// steps; without Scale it uses the maximum of each token. Other devices ignore
	// it.
	Scale float32
}

// Device computes matmuls. One goroutine at a time may call the methods of a device, its
// kernels and its tickets. Prepare, Attach, Flush and Fetch may take long; Kernel.Submit
// does not wait for the work that it starts.
type Device interface {
	Capabilities() Capabilities
	// Prepare makes a matmul ready: it builds the graph or compiles the program and
	// converts the weights to the device's layout. The caller
	// must not change op.Weights before it closes the kernel, because the device may
	// read them in place.
	Prepare(op Op) (Kernel, error)
	// Attach makes a buffer usable in Submit until the device is closed.
	Attach(b *Buffer) error
	// Flush makes the host's writes to a buffer visible to the device, FlushRows the
	// host's writes to rows of n elements. Fetch makes the device's writes visible to
	// the host. A device makes no other copies. Fetch changes only elements that the
	// device wrote since the last Flush or Fetch, so that it preserves elements that
	// the host wrote, as in a row split. Flush discards device writes that were not
	// fetched; FlushRows discards only those in its rows.
	Flush(b *Buffer) error
	FlushRows(v View, rows, n int) error
	Fetch(b *Buffer) error
	// Clock is the clock of the device's work.
	Clock() Clock
	// Close releases the device. The caller closes its kernels first.
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

// Elastic is implemented by the kernels of devices that are not Static. SubmitSome
// starts the matmul with at most as many tokens as the kernel was prepared for.
type Elastic interface {
	Kernel
	SubmitSome(tokens int, x, y View) (Ticket, error)
}

// Ticket is submitted work. Devices reuse tickets: a ticket is valid for at least the
// next few dozen submissions to the same device, and then may stand for later work.
type Ticket interface {
	// Done reports whether the work is complete. It takes about one load: devices set
	// a flag after they have written the output.
	Done() bool
	// Wait blocks in the driver until the work is complete, which costs more than
	// polling at the right moment: see Await.
	Wait() error
}

// Timed is implemented by tickets of devices that record execution times.
type Timed interface {
	Ticket
	// Ran returns the begin and the end of completed work on the device's clock.
	Ran() (begin, end time.Duration)
}

// Clock returns the time and sleeps. A simulated device has its own clock.
type Clock interface {
	Now() time.Duration // since a fixed moment
	Sleep(d time.Duration)
}

// Await waits for work whose predicted end is at: it sleeps until just before that
// time, then polls. It does not sleep for less than grain, the shortest sleep that the
// system delivers. If the prediction is too early, Await polls longer; if it is too
// late, Await returns late.
//
// Between polls Await yields to other goroutines, because they may do the work.
//
// Await returns the error of the work.
func Await(c Clock, t Ticket, at, grain time.Duration) error {
	if ahead := at - c.Now() - grain; ahead > grain {
		c.Sleep(ahead)
	}
	for polls := 1; !t.Done(); polls++ {
		if polls%pollsPerYield == 0 {
			runtime.Gosched()
		}
	}
	return t.Wait()
}

// pollsPerYield is the number of polls that take as long as one yield when no other
// goroutine is ready.
const pollsPerYield = 16
