package limits

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
)

func TestReadBandwidth(t *testing.T) {
	memory := NewMemory(8 << 20)
	for _, threads := range []int{1, 2} {
		got, err := ReadBandwidth(memory, threads)
		require.NoError(t, err)
		require.Positive(t, got, "bytes a second by %d threads", threads)
	}
	for _, bad := range []struct{ bytes, threads int }{{0, 1}, {8 << 20, 0}, {1 << 20, 2}} {
		_, err := ReadBandwidth(memory[:bad.bytes], bad.threads)
		require.Error(t, err)
	}
}

// TestRead reads slices whose lengths are and are not multiples of 1024, the
// block size of the SIMD kernels.
func TestRead(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024, 1500, 5000} {
		Read(make([]byte, n))
	}
}

func TestInt8Peak(t *testing.T) {
	got, instruction, err := Int8Peak(1)
	require.NoError(t, err)
	require.NotEmpty(t, instruction)
	require.Positive(t, got)
	_, _, err = Int8Peak(0)
	require.Error(t, err)
}

// TestPeakLoops runs the peak loop of every path that this processor supports.
func TestPeakLoops(t *testing.T) {
	for _, path := range []string{"portable", "avx2", quant.Features()} {
		if path == "avx2" && quant.Features() != "avx512" {
			continue
		}
		p := peakOf(path)
		require.NotEmpty(t, p.instruction)
		p.run(100)
	}
}

func TestMatrixPeak(t *testing.T) {
	got, instruction, err := MatrixPeak(1)
	require.NoError(t, err)
	_, _, wrong := MatrixPeak(0)
	require.Error(t, wrong)
	require.Equal(t, quant.Tiles(), got > 0)
	require.Equal(t, quant.Tiles(), instruction != "")
}

// TestMeasuredLimitsArePlausible has floors and ceilings that are far from what any processor does. A rate outside
// them is counted wrong.
func TestMeasuredLimitsArePlausible(t *testing.T) {
	testutil.Measured(t)
	memory := NewMemory(8 << 20)
	for _, threads := range []int{1, 2} {
		got, err := ReadBandwidth(memory, threads)
		require.NoError(t, err)
		require.Greater(t, got, 1e8, "bytes a second by %d threads", threads)
		require.Less(t, got, 1e13, "bytes a second by %d threads", threads)
	}
	got, _, err := Int8Peak(1)
	require.NoError(t, err)
	require.Greater(t, got, 1e7)
	require.Less(t, got, 1e14)
	got, _, err = MatrixPeak(1)
	require.NoError(t, err)
	if quant.Tiles() {
		require.Greater(t, got, 1e9)
		require.Less(t, got, 1e15)
	}
}

// TestThreadsWorkTogether checks that every thread works once in each run, after prepare has been called for it and before it is called for
// the next one, also where threads have to give up their turn.
func TestThreadsWorkTogether(t *testing.T) {
	const starts, runs = 2, 3
	for _, threads := range []int{1, 2, 5} {
		var prepared, worked, wrong atomic.Int64
		took := fastest(starts, runs, threads, func() {
			if worked.Load() != prepared.Load()*int64(threads) {
				wrong.Add(1)
			}
			prepared.Add(1)
		}, func() {
			if n := worked.Add(1); (n+int64(threads)-1)/int64(threads) != prepared.Load() {
				wrong.Add(1)
			}
		})
		require.Positive(t, took)
		require.EqualValues(t, starts*runs, prepared.Load())
		require.EqualValues(t, starts*runs*threads, worked.Load())
		require.Zero(t, wrong.Load())
	}
}

func BenchmarkLimits(b *testing.B) {
	memory := NewMemory(SweepBytes)
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			var read, peak float64
			for b.Loop() {
				r, err := ReadBandwidth(memory, threads)
				if err != nil {
					b.Fatal(err)
				}
				p, _, err := Int8Peak(threads)
				if err != nil {
					b.Fatal(err)
				}
				read, peak = max(read, r), max(peak, p)
			}
			b.ReportMetric(read/1e9, "GB/s")
			b.ReportMetric(peak/1e9, "Gop/s")
		})
	}
}
