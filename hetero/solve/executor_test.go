package solve_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/quant"
)

// ended is a ticket that has completed or failed.
type ended struct{ error }

func (ended) Done() bool    { return true }
func (e ended) Wait() error { return e.error }

// onlyClock is a device that supports only Clock.
type onlyClock struct{ hetero.Device }

func (onlyClock) Clock() hetero.Clock { return hetero.Wall() }

// TestFailedMatmulsAreReported checks every way of waiting: a failed matmul counts as
// completed, but its rows must not be used.
func TestFailedMatmulsAreReported(t *testing.T) {
	broken := errors.New("the device is gone")
	for _, fast := range []bool{false, true} {
		e := solve.Executor{Devices: [2]hetero.Device{onlyClock{}, onlyClock{}}, Fast: fast}
		pending := solve.Pending{Device: 1, Ticket: ended{broken}}
		require.ErrorIs(t, e.Await(pending), broken, "fast %v", fast)
		require.ErrorIs(t, e.Before(0, nil, []solve.Pending{pending}), broken, "fast %v", fast)
	}
}

// slow is a device whose matmuls complete when they are waited for, and which fails
// from a certain submission on.
type slow struct {
	hetero.Device
	sound   int // remaining successful submissions
	pending int // matmuls in flight
	closed  int // closed kernels
}

func (*slow) Capabilities() hetero.Capabilities          { return hetero.Capabilities{} }
func (*slow) Clock() hetero.Clock                        { return hetero.Wall() }
func (d *slow) Prepare(hetero.Op) (hetero.Kernel, error) { return &slowKernel{device: d}, nil }

type slowKernel struct {
	hetero.Kernel
	device *slow
}

var errSlow = errors.New("no more")

func (k *slowKernel) Submit(_, _ hetero.View) (hetero.Ticket, error) {
	if k.device.sound--; k.device.sound < 0 {
		return nil, errSlow
	}
	k.device.pending++
	return &slowTicket{k.device}, nil
}

func (k *slowKernel) Close() error {
	k.device.closed++
	if k.device.pending > 0 {
		return errors.New("closed at work")
	}
	return nil
}

type slowTicket struct{ device *slow }

func (*slowTicket) Done() bool { return false }
func (t *slowTicket) Wait() error {
	t.device.pending = 0 // and what was submitted before
	return nil
}

// TestErrorsLeaveNothingInFlight lets the second device, in order of submission, fail
// from one matmul on. The executor must wait for the others, and so must Close.
func TestErrorsLeaveNothingInFlight(t *testing.T) {
	split := solve.Split{Pieces: []solve.Piece{{Device: 0, Tokens: 4, Padded: 4, Rows: 8}, {Device: 1, Tokens: 4, Padded: 4, Row: 8, Rows: 8}}}
	op := hetero.Op{Type: quant.F32, Tokens: 4, Rows: 16, Cols: 4}
	for sound := range 3 {
		first, second := &slow{sound: sound}, &slow{sound: 100}
		e := solve.Executor{Devices: [2]hetero.Device{first, second}, Costs: noCosts{}}
		require.NoError(t, e.Prepare("", op, &split))
		for range sound {
			_, err := e.Submit("", op, &split, hetero.View{}, hetero.View{}, nil)
			require.NoError(t, err)
		}
		_, err := e.Submit("", op, &split, hetero.View{}, hetero.View{}, nil)
		require.ErrorIs(t, err, errSlow)
		require.Zero(t, first.pending+second.pending, "after %d", sound)
		second.sound, first.sound = 1, 1
		_, err = e.Submit("", op, &split, hetero.View{}, hetero.View{}, nil)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.Equal(t, 2, first.closed+second.closed)
	}
}

// TestFailedMeasurementsEndCompletely checks that a matmul that fails in the middle
// of a chain leaves no other one in flight.
func TestFailedMeasurementsEndCompletely(t *testing.T) {
	for sound := range 4 {
		d := &slow{sound: sound}
		p := solve.NewProfiler([]hetero.Device{d}, nil)
		p.Time(0, hetero.Op{Type: quant.F32, Tokens: 4, Rows: 16, Cols: 4})
		require.ErrorIs(t, p.Err, errSlow)
		require.Zero(t, d.pending, "after %d", sound)
		require.Equal(t, 1, d.closed)
	}
}

// noCosts predicts nothing.
type noCosts struct{}

func (noCosts) Time(int, hetero.Op) time.Duration { return 0 }
func (noCosts) Start(int) time.Duration           { return 0 }
func (noCosts) Slowdown(hetero.Op) float64        { return 1 }

// noting is a device that records its name when it receives work.
type noting struct {
	onlyClock
	name  string
	began *[]string
}

func (n noting) Prepare(hetero.Op) (hetero.Kernel, error) { return notingKernel{device: n}, nil }

type notingKernel struct {
	hetero.Kernel
	device noting
}

func (k notingKernel) Submit(_, _ hetero.View) (hetero.Ticket, error) {
	*k.device.began = append(*k.device.began, k.device.name)
	return ended{}, nil
}

// TestLongestPieceIsSubmittedFirst checks that the executor submits first to the NPU
// for many tokens, whose piece is the longer one, and to the GPU for a single token,
// because its queue still holds earlier work.
func TestLongestPieceIsSubmittedFirst(t *testing.T) {
	for tokens, want := range map[int][]string{1: {"GPU", "NPU"}, 256: {"NPU", "GPU"}} {
		var began []string
		e := solve.Executor{Devices: [2]hetero.Device{noting{name: "GPU", began: &began}, noting{name: "NPU", began: &began}}, Costs: instant{}, Fast: true}
		split := solve.Split{Cut: solve.Row, Pieces: []solve.Piece{
			{Device: 1, Tokens: tokens, Padded: tokens, Rows: 32}, {Device: 0, Tokens: tokens, Padded: tokens, Row: 32, Rows: 32},
		}}
		op := hetero.Op{Tokens: tokens, Rows: 64, Cols: 32}
		require.NoError(t, e.Prepare("w", op, &split))
		_, err := e.Submit("w", op, &split, hetero.View{}, hetero.View{}, nil)
		require.NoError(t, err)
		require.Equal(t, want, began)
	}
}
