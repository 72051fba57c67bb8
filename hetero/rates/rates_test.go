package rates

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestMatmulsAreComputed checks that the measured matmuls have finite, nonzero
// results; the time of anything else would mean little.
func TestMatmulsAreComputed(t *testing.T) {
	for _, m := range []Matmul{
		{quant.Q4_0, 4096, true}, {quant.Q8_0, 512, true}, {quant.Q4_K, 1024, true}, {quant.Q6_K, 2048, true}, {quant.Q8_0, 1024, false}, {quant.BF16, 512, false}, {quant.F32, 4096, false},
	} {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			p, err := newMatmulBench(tiering.New(0), m, 2, 0)
			require.NoError(t, err)
			defer p.close()
			for _, c := range []struct{ rows, tokens int }{{p.rows, 1}, {promptRows, 3}} {
				clear(p.y)
				require.Positive(t, p.time(c.rows, c.tokens))
				for i, y := range p.y[:c.rows*c.tokens] {
					require.False(t, math.IsNaN(float64(y)) || math.IsInf(float64(y), 0) || y == 0, "result %d is %v", i, y)
				}
			}
		})
	}
}

func TestWeightBytes(t *testing.T) {
	for model, want := range map[int64]int64{0: 64, 1 << 20: 64, 65 << 20: 128, 346 << 20: 384, 4 << 30: 1024} {
		require.Equal(t, want<<20, WeightBytes(model))
	}
}

func TestComputeRefuses(t *testing.T) {
	for _, c := range []struct {
		m       Matmul
		threads int
	}{
		{Matmul{quant.Q4_0, 4096, true}, 0}, {Matmul{quant.Invalid, 4096, false}, 1}, {Matmul{quant.F32, 4096, true}, 1}, {Matmul{quant.F32, 256, false}, 1}, {Matmul{quant.F32, 8192, false}, 1},
	} {
		_, _, err := Compute(tiering.New(0), c.m, c.threads, 0)
		require.Error(t, err, c)
	}
}

// TestNearCols rounds row lengths to the next power of two on a logarithmic scale.
func TestNearCols(t *testing.T) {
	for cols, want := range map[int]int{1: 512, 384: 512, 724: 512, 725: 1024, 896: 1024, 1448: 1024, 1449: 2048, 4096: 4096, 14336: 4096} {
		require.Equal(t, want, NearCols(cols), cols)
	}
}

// slow waits during each read and records how many reads overlap.
type slow struct {
	wait         func()
	in, most     atomic.Int64
	fail, beyond int64
}

func (s *slow) ReadAt(p []byte, off int64) (int, error) {
	defer s.in.Add(-1)
	n := s.in.Add(1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	if s.wait != nil {
		s.wait()
	}
	if s.fail > 0 && off >= s.fail {
		return 0, errors.New("worn out")
	}
	if off+int64(len(p)) > s.beyond {
		return 0, io.EOF
	}
	return len(p), nil
}

// TestFlash runs on a fake clock, so that the rate is exact: every reader makes twenty reads
// of 2 ms in 40 ms.
func TestFlash(t *testing.T) {
	const piece = 64 << 10
	synctest.Test(t, func(t *testing.T) {
		s := &slow{wait: func() { time.Sleep(2 * time.Millisecond) }, beyond: 10 * piece}
		gbs, err := Flash(tiering.New(0), s, 10*piece+5, piece, 40*time.Millisecond)
		require.NoError(t, err)
		require.InEpsilon(t, tiering.StreamReads*piece/0.002/1e9, gbs, 1e-9, "the rate of the source")
		require.EqualValues(t, tiering.StreamReads, s.most.Load(), "reads overlap")
	})

	_, err := Flash(tiering.New(0), &slow{fail: 3 * piece, beyond: 10 * piece}, 10*piece, piece, time.Second)
	require.ErrorContains(t, err, "worn out")
	_, err = Flash(tiering.New(0), bytes.NewReader(nil), 0, piece, time.Second)
	require.ErrorContains(t, err, "too few")
	_, err = Flash(tiering.New(0), bytes.NewReader(nil), 10, 0, time.Second)
	require.Error(t, err)
}

func BenchmarkCompute(b *testing.B) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		b.Run(typ.String(), func(b *testing.B) {
			for b.Loop() {
				decode, prefill, err := Compute(tiering.New(0), Matmul{typ, 4096, true}, 2, 1<<30)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(decode, "GB/s")
				b.ReportMetric(prefill, "Gop/s")
			}
		})
	}
}

func TestSpreadVisitsTheWholeFile(t *testing.T) {
	for _, windows := range []int64{1, 2, 3, 4, 8, 10, 16, 97, 256, 1000} {
		at := spread(windows)
		seen := map[int64]bool{}
		for i := range windows {
			seen[at(i)] = true
		}
		require.Len(t, seen, int(windows), "%d windows", windows)
	}
}

// TestMeasurementsStayWithinABudget gives the measurements a budget with room for what they
// say they need, for a small ring, and for nothing. They take their memory from it and return
// it.
func TestMeasurementsStayWithinABudget(t *testing.T) {
	const weights = 4 << 20
	budget := tiering.New(weights + ComputeRoom)
	_, _, err := Compute(budget, Matmul{Type: quant.F32, Cols: 4096}, 1, weights)
	require.NoError(t, err)
	require.Greater(t, budget.Usage().TotalPeak, int64(weights))
	require.NoError(t, budget.Check())

	const piece = 64 << 10
	budget = tiering.New(20 * piece)
	_, err = Flash(budget, &slow{beyond: 10 * piece}, 10*piece, piece, time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, budget.Usage().TotalPeak, int64(15*piece))
	require.NoError(t, budget.Check())

	_, _, err = Compute(tiering.New(piece), Matmul{Type: quant.F32, Cols: 4096}, 1, weights)
	require.ErrorIs(t, err, tiering.ErrBudget)
	_, err = Flash(tiering.New(piece), &slow{beyond: 10 * piece}, 10*piece, piece, time.Millisecond)
	require.ErrorIs(t, err, tiering.ErrBudget)
}

// TestRoundsAreScattered checks that a round makes its reads at once, at other places each time, and
// that an error ends it.
func TestRoundsAreScattered(t *testing.T) {
	const page, size = 5000, 100 * 8192
	var mu sync.Mutex
	seen := map[int64]int{}
	from := prefetch.ReaderFunc(func(p []byte, off int64) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[off]++
		if len(p) != 8192 || off%8192 != 0 || off+8192 > size {
			return 0, fmt.Errorf("a read of %d bytes at %d", len(p), off)
		}
		return len(p), nil
	})
	took, err := Round(tiering.New(0), from, size, page, time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, took)
	require.Greater(t, len(seen), RoundReads-1)
	_, err = Round(tiering.New(0), prefetch.ReaderFunc(func([]byte, int64) (int, error) { return 0, io.ErrUnexpectedEOF }), size, page, 0)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = Round(tiering.New(0), from, 10, page, 0)
	require.ErrorContains(t, err, "too few")
}

// countedFile is a file of zeros that counts what is read of it.
type countedFile struct {
	vfs.File
	read atomic.Int64
	fail error
}

func (f *countedFile) ReadAt(p []byte, _ int64) (int, error) {
	if f.fail != nil {
		return 0, f.fail
	}
	f.read.Add(int64(len(p)))
	return len(p), nil
}

// TestStreamCore streams a file until the time is over, and divides all that was read by the processor time.
func TestStreamCore(t *testing.T) {
	const piece = 128 << 10
	f := &countedFile{}
	calls := time.Duration(0)
	ran := func() time.Duration { calls++; return calls * 2 * time.Second }
	budget := tiering.New(10 * piece)
	gbs, err := StreamCore(budget, f, 20*piece+5, piece, 5*time.Millisecond, ran)
	require.NoError(t, err)
	require.Positive(t, f.read.Load())
	require.InEpsilon(t, float64(f.read.Load())/2e9, gbs, 1e-9)
	require.NoError(t, budget.Check())
	require.Zero(t, budget.Usage().Total)

	gbs, err = StreamCore(budget, f, 20*piece, piece, time.Millisecond, func() time.Duration { return 0 })
	require.NoError(t, err)
	require.Zero(t, gbs, "the system does not tell")
	_, err = StreamCore(tiering.New(piece), f, 20*piece, piece, time.Millisecond, ran)
	require.ErrorIs(t, err, tiering.ErrBudget)
	f.fail = errors.New("worn out")
	_, err = StreamCore(budget, f, 20*piece, piece, time.Second, ran)
	require.ErrorContains(t, err, "worn out")
}

// TestRoomForFlashIsRoomForStreamCore checks that a budget in which Flash measures has room for StreamCore too: a measurement without it
// counts as unfinished, and would be made again at each start.
func TestRoomForFlashIsRoomForStreamCore(t *testing.T) {
	const piece, pieces = 16 << 10, 40
	calls := time.Duration(0)
	ran := func() time.Duration { calls++; return calls * time.Second }
	measured := 0
	for room := int64(1); room < pieces; room++ {
		_, err := Flash(tiering.New(room*piece), &countedFile{}, pieces*piece, piece, time.Microsecond)
		if err != nil {
			require.ErrorIs(t, err, tiering.ErrBudget)
			continue
		}
		measured++
		_, err = StreamCore(tiering.New(room*piece), &countedFile{}, pieces*piece, piece, time.Microsecond, ran)
		require.NoError(t, err, "%d pieces", room)
	}
	require.Less(t, measured, pieces-1, "small budgets have room for neither")
	require.Positive(t, measured)
}
