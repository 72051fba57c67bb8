package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// newChip returns a chip that simulates time only.
func newChip(t *testing.T, o Options) *SoC {
	o.TimeOnly = true
	s, err := New("8-gen-3", o)
	require.NoError(t, err)
	return s
}

// took returns the time of matmuls that are queued together, from the first submission until the
// host sees the end of the last one.
func took(t *testing.T, s *SoC, work map[*Device]hetero.Op, times int) time.Duration {
	kernels := map[*Device]hetero.Kernel{}
	for d, op := range work {
		k, err := d.Prepare(op)
		require.NoError(t, err)
		kernels[d] = k
		defer func() { require.NoError(t, k.Close()) }()
	}
	begin := s.Elapsed()
	var last []hetero.Ticket
	for range times {
		last = last[:0]
		for _, k := range kernels {
			ticket, err := k.Submit(hetero.View{}, hetero.View{})
			require.NoError(t, err)
			last = append(last, ticket)
		}
	}
	for _, ticket := range last {
		for !ticket.Done() {
		}
	}
	return s.Elapsed() - begin
}

func op(tokens, rows, cols int) hetero.Op {
	return hetero.Op{Tokens: tokens, Rows: rows, Cols: cols, Streamed: true}
}

// TestConstantsHaveSources checks that every constant of every chip has a source, and that few
// constants are fitted.
func TestConstantsHaveSources(t *testing.T) {
	for _, soc := range SoCs() {
		fitted := 0
		for _, c := range Constants(soc) {
			require.NotEmpty(t, c.Source, c.Name)
			require.Positive(t, c.Value, c.Name)
			if c.Fitted {
				fitted++
			}
		}
		require.LessOrEqual(t, fitted, 5)
		_, err := New(soc, Options{})
		require.NoError(t, err)
	}
	_, err := New("pentium", Options{})
	require.ErrorContains(t, err, "pentium")
}

// TestMemoryIsShared checks that two processors together reach more bandwidth than one, but
// less than twice as much.
func TestMemoryIsShared(t *testing.T) {
	s := newChip(t, Options{})
	large := op(1, 65536, 4096)
	one := took(t, s, map[*Device]hetero.Op{s.GPU: large}, 4).Seconds()
	two := took(t, s, map[*Device]hetero.Op{s.GPU: large, s.NPU: large}, 4).Seconds()
	require.InEpsilon(t, 2*43.3/59.1, two/one, 0.02)
}

// TestArithmeticIsNotShared checks that the arithmetic of one device does not slow down another
// device.
func TestArithmeticIsNotShared(t *testing.T) {
	s := newChip(t, Options{})
	one := took(t, s, map[*Device]hetero.Op{s.GPU: op(256, 4096, 4096)}, 4)
	two := took(t, s, map[*Device]hetero.Op{s.GPU: op(256, 4096, 4096), s.NPU: op(256, 1024, 1024)}, 4)
	require.InEpsilon(t, one.Seconds(), two.Seconds(), 0.02)
}

// TestStageOrderAndShape checks three effects of NPUs: stages of 32 tokens, and the influence
// of the order and the shape of operands.
func TestStageOrderAndShape(t *testing.T) {
	s := newChip(t, Options{})
	npu := func(o hetero.Op) float64 { return took(t, s, map[*Device]hetero.Op{s.NPU: o}, 4).Seconds() }
	require.Equal(t, npu(op(33, 4096, 4096)), npu(op(64, 4096, 4096)), "stages of 32 tokens")
	wrong := op(256, 14336, 4096)
	wrong.Streamed = false
	require.Greater(t, npu(wrong), 3*npu(op(256, 14336, 4096)), "order")
	require.Greater(t, npu(op(256, 4096, 14336)), 2*npu(op(256, 14336, 4096)), "shape")
}

// TestPreparation checks that preparing the static graphs of a layer of Llama-8B takes the
// published times.
func TestPreparation(t *testing.T) {
	s := newChip(t, Options{})
	for tokens, want := range map[int]float64{135: 0.4084, 1000: 2.05} {
		begin := s.Elapsed()
		for _, shape := range [][2]int{{4096, 4096}, {1024, 4096}, {14336, 4096}, {4096, 14336}} {
			k, err := s.NPU.Prepare(op(tokens, shape[0], shape[1]))
			require.NoError(t, err)
			require.NoError(t, k.Close())
		}
		require.InEpsilon(t, want, (s.Elapsed() - begin).Seconds(), 1e-6)
	}
}

// TestAddressSpace checks that kernels beyond the memory limit of the NPU are refused.
func TestAddressSpace(t *testing.T) {
	s, err := New("8-gen-2", Options{TimeOnly: true})
	require.NoError(t, err)
	k, err := s.NPU.Prepare(op(1, 1<<16, 1<<15)) // 1 GiB
	require.NoError(t, err)
	_, err = s.NPU.Prepare(op(1, 1<<16, 1<<15))
	var beyond *hetero.MemoryError
	require.ErrorAs(t, err, &beyond)
	require.Equal(t, s.NPU.Capabilities().Memory, beyond.Limit)
	require.ErrorContains(t, s.NPU.Close(), "1 kernels")
	require.NoError(t, k.Close())
	require.NoError(t, s.NPU.Close())
	require.Error(t, k.Close())
}

// TestCopies checks that copies take time only if memory is not shared.
func TestCopies(t *testing.T) {
	for _, apart := range []bool{false, true} {
		s := newChip(t, Options{SeparateMemory: apart})
		begin := s.Elapsed()
		require.NoError(t, s.GPU.Flush(nil))
		require.NoError(t, s.NPU.Fetch(nil))
		require.Equal(t, apart, s.Elapsed()-begin == s.Copy())
		require.Equal(t, !apart, s.GPU.Capabilities().SharesMemory)
	}
}

// TestCopiesWaitForTheirQueue checks that a copy waits for earlier work items of its device's queue,
// but not for other devices.
func TestCopiesWaitForTheirQueue(t *testing.T) {
	large := op(1, 65536, 4096)
	alone := newChip(t, Options{})
	matmul := took(t, alone, map[*Device]hetero.Op{alone.GPU: large}, 1)
	for _, own := range []bool{true, false} {
		s := newChip(t, Options{SeparateMemory: true})
		busy, want := s.NPU, s.Copy()
		if own {
			busy, want = s.GPU, matmul+s.Copy()
		}
		k, err := busy.Prepare(large)
		require.NoError(t, err)
		begin := s.Elapsed()
		ticket, err := k.Submit(hetero.View{}, hetero.View{})
		require.NoError(t, err)
		require.NoError(t, s.GPU.Fetch(nil))
		require.InDelta(t, want.Seconds(), (s.Elapsed() - begin).Seconds(), 20e-6, "a submit and a poll")
		require.Equal(t, own, ticket.Done())
		require.NoError(t, ticket.Wait())
		require.NoError(t, k.Close())
	}
}

// TestAwaitBeatsSleeping checks that sleeping until shortly before the predicted end and then
// polling detects the end sooner than repeated sleeps.
func TestAwaitBeatsSleeping(t *testing.T) {
	times := map[bool]time.Duration{}
	for _, fast := range []bool{false, true} {
		s := newChip(t, Options{})
		k, err := s.GPU.Prepare(op(1, 14336, 4096))
		require.NoError(t, err)
		for range 20 {
			begin := s.Elapsed()
			ticket, err := k.Submit(hetero.View{}, hetero.View{})
			require.NoError(t, err)
			if fast {
				require.NoError(t, hetero.Await(s.GPU.Clock(), ticket, begin+700*time.Microsecond, s.Grain()))
			} else {
				require.NoError(t, ticket.Wait())
			}
			times[fast] += s.Elapsed() - begin
		}
	}
	require.Less(t, times[true], times[false])
}

// identityOf returns a matmul that copies two tokens.
func identityOf(size int) hetero.Op {
	weights := make([]byte, 4*size*size)
	for i := range size {
		one := weights[4*(size*i+i):]
		one[2], one[3] = 0x80, 0x3f // 1.0
	}
	return hetero.Op{Tokens: 2, Rows: size, Cols: size, Type: quant.F32, Weights: weights}
}

// TestResultsTakeTime checks that a result appears when its work item ends, and that a read without a
// wait returns the previous contents.
func TestResultsTakeTime(t *testing.T) {
	s, err := New("8-gen-3", Options{})
	require.NoError(t, err)
	identity := identityOf(32)
	budget := tiering.New(0)
	pool, err := hetero.NewBufferPool(budget, 2, 4096, s.CPU, s.GPU, s.NPU)
	require.NoError(t, err)
	defer func() { pool.Close(); require.NoError(t, budget.Check()) }()
	for _, d := range []*Device{s.CPU, s.GPU, s.NPU} {
		x, y := pool.Take(), pool.Take()
		require.Nil(t, pool.Take())
		for i := range 64 {
			x.Floats()[i], y.Floats()[i] = float32(i), -1
		}
		k, err := d.Prepare(identity)
		require.NoError(t, err)
		ticket, err := k.Submit(hetero.View{Buffer: x, Stride: 32}, hetero.View{Buffer: y, Stride: 32})
		require.NoError(t, err)
		require.EqualValues(t, -1, y.Floats()[33])
		require.NoError(t, ticket.Wait())
		require.Equal(t, x.Floats()[:64], y.Floats()[:64])
		_, err = k.Submit(hetero.View{Buffer: &hetero.Buffer{}}, hetero.View{})
		require.ErrorContains(t, err, "not attached")
		require.NoError(t, k.Close())
		pool.Put(x)
		pool.Put(y)
		require.Panics(t, func() { pool.Put(y) })
	}
}

// TestCopiesAndMatmulsKeepOrder checks that a queue executes copies and matmuls in order. A
// matmul reads the data of earlier flushes only, and a fetch returns its result without a
// separate wait.
func TestCopiesAndMatmulsKeepOrder(t *testing.T) {
	s, err := New("8-gen-3", Options{SeparateMemory: true})
	require.NoError(t, err)
	budget := tiering.New(0)
	pool, err := hetero.NewBufferPool(budget, 2, 4096, s.GPU)
	require.NoError(t, err)
	x, y := pool.Take(), pool.Take()
	k, err := s.GPU.Prepare(identityOf(32))
	require.NoError(t, err)
	x.Floats()[33] = 5
	require.NoError(t, s.GPU.Flush(x))
	s.GPU.Charge(0, 1e9) // takes longer than a copy
	_, err = k.Submit(hetero.View{Buffer: x, Stride: 32}, hetero.View{Buffer: y, Stride: 32})
	require.NoError(t, err)
	x.Floats()[33] = 7
	require.NoError(t, s.GPU.FlushRows(hetero.View{Buffer: x, Stride: 32}, 2, 32))
	require.NoError(t, s.GPU.Fetch(y))
	require.EqualValues(t, 5, y.Floats()[33])
	_, err = k.Submit(hetero.View{Buffer: x, Stride: 32}, hetero.View{Buffer: y, Stride: 32})
	require.NoError(t, err)
	require.NoError(t, s.GPU.Fetch(y))
	require.EqualValues(t, 7, y.Floats()[33])
	require.NoError(t, k.Close())
	require.NoError(t, s.GPU.Close())
	pool.Close()
	require.NoError(t, budget.Check())
}

// TestLateTimes checks that short matmuls end after months of virtual time, when the resolution
// of the clock is coarse.
func TestLateTimes(t *testing.T) {
	s := newChip(t, Options{})
	for range 20 {
		s.machine.Sleep(12345 * time.Hour)
		both := map[*Device]hetero.Op{s.GPU: op(1, 100, 300), s.NPU: op(3, 7, 11)}
		require.Less(t, took(t, s, both, 3), time.Millisecond)
	}
}
