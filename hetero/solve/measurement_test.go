package solve_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/quant"
)

// lazy is a device whose kernels become ready on their first run, like drivers that
// compile or copy at that time. Its times are configurable.
type lazy struct {
	hetero.Device
	now         time.Duration
	first, each time.Duration // of a kernel's first run, besides, and of all
	open, ran   int           // kernels, and those that ran
}

func (l *lazy) Capabilities() hetero.Capabilities { return hetero.Capabilities{Name: "lazy"} }
func (l *lazy) Clock() hetero.Clock               { return l }
func (l *lazy) Now() time.Duration                { return l.now }
func (l *lazy) Sleep(d time.Duration)             { l.now += d }

func (l *lazy) Prepare(hetero.Op) (hetero.Kernel, error) {
	l.open++
	return &lazyKernel{device: l}, nil
}

// lazyKernel is a kernel of lazy. Methods that the test does not need are missing.
type lazyKernel struct {
	hetero.Kernel
	device *lazy
	ready  bool
}

func (k *lazyKernel) Submit(x, y hetero.View) (hetero.Ticket, error) {
	if !k.ready {
		k.ready = true
		k.device.ran++
		k.device.now += k.device.first
	}
	k.device.now += k.device.each
	return ended{}, nil
}

func (k *lazyKernel) Close() error {
	k.device.open--
	return nil
}

// TestOnlyWarmKernelsAreMeasured checks that the additional time of a kernel's first
// run is in no measurement, even with few runs.
func TestOnlyWarmKernelsAreMeasured(t *testing.T) {
	const others = 8
	for _, c := range []struct {
		each time.Duration
		warm int // kernels
	}{
		{time.Millisecond, others},
		{150 * time.Millisecond, 2}, // there is no time for more
		{time.Second, 1},
	} {
		d := &lazy{first: 10 * time.Millisecond, each: c.each}
		p := solve.NewProfiler([]hetero.Device{d}, func(int, *hetero.Op, int) (x, y hetero.View, n int) { return x, y, others })
		p.Repeats = 1
		op := hetero.Op{Tokens: 1, Rows: 8, Cols: 32, Type: quant.Q8_0}
		require.Equal(t, c.each, p.Time(0, op))
		require.NoError(t, p.Err)
		require.Equal(t, c.warm, d.ran, "each takes %v", c.each)
		require.Zero(t, d.open, "kernels are closed")
	}
}
