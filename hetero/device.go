package hetero

import (
	"runtime"
	"time"

	"github.com/llmrun/llmrun/quant"
)

// Kind says what a device is. It decides nothing by itself: what a device can
// do is in its Capabilities.
type Kind uint8

// The kinds of devices of a machine.
const (
	CPU Kind = iota
	GPU
	NPU
)

// String returns the name that tables show.
func (k Kind) String() string { return [...]string{"CPU", "GPU", "NPU"}[k] }

// Capabilities are what a plan has to know of a device before it gives it work.
type Capabilities struct {
	Name      string // of the device, as its driver tells it
	Driver    string // its version; "" where the name tells all that times depend on
	Kind      Kind
	Simulated bool // time is virtual: no figure of it says anything of this machine
	// Static says that a kernel runs for exactly the tokens that it was prepared
	// for, and that preparing one takes long: it has to be done ahead.
	Static bool
	// SharesMemory says that the device reads and writes the pages of a Buffer in place
	// and sees what others wrote there, so that Flush and Fetch cost nothing.
	// Where it is false, a plan charges both.
	SharesMemory bool
	// FixedScale says that products of weights in Q8_0 are rounded to Op.Scale and clipped,
	// so that somebody else can add what lies beyond.
	FixedScale bool
	// Memory is how many bytes of kernels and attached buffers the device can
	// address at once, 0 if there is no limit below the machine's memory.
	Memory int64
}

// Op is a matrix product: y[tokens, rows] = x[tokens, cols] · weights[rows, cols]ᵀ.
// All devices round differently; see Kernel.Tolerance.
type Op struct {
	Tokens, Rows, Cols int
	Type               quant.Type
	Weights            []byte // [Rows, Cols] in Type; the device may keep another layout
	// Streamed asks a device that holds one operand still and streams the other
	// past it to stream the weights: [[rows, cols]·[cols, tokens]]ᵀ. Results are
	// those of the same product.
	Streamed bool
	// Scale is a step of 8-bit activations, as a calibration found it, or 0. A
	// device with integers of one scale rounds to it and clips what lies beyond
	// ±127 steps; without it such a device looks for the largest number of each
	// token. Others do not read it.
	Scale float32
}

// Device is one place where products can be computed. Prepare, Attach, Flush
// and Fetch may take long and are called from one goroutine at a time; a
// Kernel's Submit does not wait for its work.
type Device interface {
	Capabilities() Capabilities
	// Prepare makes a product ready: it builds the graph or compiles the program
	// and puts the weights into the device's own layout. What of op.Weights the
	// device still needs afterwards must stay unchanged until the kernel is closed.
	Prepare(op Op) (Kernel, error)
	// Attach makes a buffer usable in Submit until the device is closed.
	Attach(b *Buffer) error
	// Flush makes what others wrote into a buffer visible to the device, FlushRows
	// so many rows of n numbers of it, and Fetch what the device wrote visible to
	// others. Nobody else does it: there are no hidden copies. Fetch changes only
	// what the device wrote and nobody has flushed or fetched since: others may have
	// written beside it, as where rows are divided. What the device wrote there is
	// lost with Flush, but not with a FlushRows of other places.
	Flush(b *Buffer) error
	FlushRows(v View, rows, n int) error
	Fetch(b *Buffer) error
	// Clock is the clock by which the device's work takes time.
	Clock() Clock
	// Close ends the device. Its kernels must have been closed.
	Close() error
}

// Kernel is a prepared product. Kernels of one device run one after the other
// in the order of their submission, and each sees what those before it wrote.
type Kernel interface {
	// Submit starts the product and returns. x and y must stay until the ticket
	// is done; the buffers must be attached to the device.
	Submit(x, y View) (Ticket, error)
	// Bytes is what the kernel holds of the device's memory. A kernel that holds
	// nothing multiplies with Op.Weights where they are.
	Bytes() int64
	// Tolerance bounds the error of an element of y against exact arithmetic on
	// the stored weights: it is at most Tolerance × max|x of its token| × Σ|w of
	// its row|. For a device that rounds to Op.Scale, 127 × Scale takes the place
	// of a smaller maximum, and what is clipped is not in it.
	Tolerance() float64
	// Close gives the kernel's memory back. Its tickets must be done.
	Close() error
}

// Elastic is what kernels of devices are that are not Static: they also multiply
// fewer tokens than they were prepared for.
type Elastic interface {
	Kernel
	SubmitSome(tokens int, x, y View) (Ticket, error)
}

// Ticket is work that was submitted. It can be asked until many more, some dozens,
// were submitted to the same device: later it may stand for one of those.
type Ticket interface {
	// Done looks whether the work is complete, at the price of one load: devices
	// set a flag beside the output when all of it is written.
	Done() bool
	// Wait blocks until the work is complete by the means of the driver, which
	// costs more than looking at the right moment: see Await.
	Wait() error
}

// Timed is what tickets are of devices that note when work ran.
type Timed interface {
	Ticket
	// Ran returns when work that is done began and ended, by the device's clock.
	Ran() (begin, end time.Duration)
}

// Clock tells the time and lets it pass. A simulated device has its own.
type Clock interface {
	Now() time.Duration // since some fixed moment
	Sleep(d time.Duration)
}

// Await waits for work that was predicted to end at a moment of the clock: it
// sleeps until just before, then looks again and again. grain is the shortest
// sleep that the system keeps to: nearer than that nobody sleeps. A prediction
// that is too early costs looks, one that is too late costs time.
//
// Who looks lets other goroutines run in between: those that do the work may be
// among them.
//
// Work that failed is done too. What a look cannot tell is asked for then: the error is
// that of Wait, which has nothing to wait for any more.
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

// pollsPerYield is how many looks, a few nanoseconds each, cost about as much as
// letting others run where there are none.
const pollsPerYield = 16
