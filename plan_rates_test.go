package llmrun

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestRatesAreCached checks that measurements are cached for each weight type and number of
// threads, and repeated on request.
func TestRatesAreCached(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir("."))
	require.NoError(t, err)
	defer f.Close()
	measured := 0
	m := rateMeasurer{fsys: vfs.OS(), dir: dir, threads: 3, weights: 300 << 20, matmul: rates.Matmul{Type: quant.BF16, Cols: 512}}
	m.compute = func(of rates.Matmul, threads int, bytes int64) (float64, float64, error) {
		require.Equal(t, m.matmul, of)
		want := int64(320 << 20)
		if m.memory > 0 {
			want = 32 << 20
		}
		require.Equal(t, want, bytes)
		measured++
		return float64(measured), float64(threads), nil
	}
	get := func(want int) Rates {
		t.Helper()
		r, err := m.rates(t.Context(), f, 0)
		require.NoError(t, err)
		require.Equal(t, want, measured)
		require.Positive(t, r.FlashGBs)
		return r
	}
	first := get(1)
	require.EqualValues(t, 3, first.PrefillGops)
	require.Equal(t, first, get(1))
	m.threads = 2
	get(2)
	m.threads = 3
	require.Equal(t, first, get(2), "the other measurements stay")
	m.remeasure = true
	require.NotEqual(t, first, get(3))
	m.remeasure = false

	require.NoError(t, os.WriteFile(filepath.Join(dir, ratesFile), []byte("{"), 0o600))
	get(4)
	m.remeasure, m.memory = true, 100<<20
	get(5)
	m.remeasure = false
	require.EqualValues(t, 4, get(5).DecodeGBs, "one with all weights is better")
	m.threads = 5
	little := get(6)
	m.memory = 120 << 20
	require.Equal(t, little, get(6), "one in about as little memory")
	m.memory = 0
	require.NotEqual(t, little, get(7), "not one in little memory")
	for i, other := range []rates.Matmul{{Type: quant.BF16, Cols: 1024}, {Type: quant.Q8_0, Cols: 512}, {Type: quant.Q8_0, Cols: 512, Integers: true}} {
		m.matmul = other
		require.Equal(t, get(8+i), get(8+i))
	}
	m.dir = ""
	get(11)
	get(12)

	m.compute = func(rates.Matmul, int, int64) (float64, float64, error) { return 0, 0, errors.New("no memory") }
	_, err = m.rates(t.Context(), f, 0)
	require.ErrorContains(t, err, "no memory")
}

// TestRatesOfSimulatedDisksAreCached checks that the speed of a simulated disk is measured once and
// belongs to that disk alone, and that the processor is not measured again for it.
func TestRatesOfSimulatedDisksAreCached(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir("."))
	require.NoError(t, err)
	defer f.Close()
	var mu sync.Mutex // reads run in parallel
	computed, reads := 0, 0
	counted := vfs.NewFaulty(vfs.OS(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead {
			mu.Lock()
			reads++
			mu.Unlock()
		}
		return nil
	})
	m := rateMeasurer{fsys: counted, dir: t.TempDir(), threads: 1, weights: 16 << 20}
	m.compute = func(rates.Matmul, int, int64) (float64, float64, error) { computed++; return 5, 5, nil }
	get := func() Rates {
		t.Helper()
		r, err := m.rates(t.Context(), f, 1<<16)
		require.NoError(t, err)
		return r
	}
	fast := get()
	m.disk = DiskSpeed{BytesPerSecond: 100e6}
	m.fsys = m.disk.throttle(counted)
	slow := get()
	require.Less(t, slow.FlashGBs, 0.11)
	require.Equal(t, 1, computed)
	before := reads
	require.Equal(t, slow, get())
	m.disk, m.fsys = DiskSpeed{}, counted
	require.Equal(t, fast, get())
	require.Equal(t, before, reads, "nothing is measured again")
	m.disk = DiskSpeed{BytesPerSecond: 100e6, Latency: time.Microsecond}
	get()
	require.Greater(t, reads, before, "another disk")
	m.remeasure = true
	get()
	require.Equal(t, 2, computed)
}

// TestReadsTakeProcessorTime checks that a measurement of flash says how much a processor reads, that a plan expects it of all
// threads, and that a saved measurement without it is completed.
func TestReadsTakeProcessorTime(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir("."))
	require.NoError(t, err)
	defer f.Close()
	m := rateMeasurer{fsys: vfs.OS(), dir: t.TempDir(), threads: 1, weights: 16 << 20}
	computed := 0
	m.compute = func(rates.Matmul, int, int64) (float64, float64, error) { computed++; return 5, 5, nil }
	m.ran = func() time.Duration { return 0 }
	r, err := m.rates(t.Context(), f, 1<<16)
	require.NoError(t, err)
	require.Zero(t, r.forPlan().ReadWorkGBs, "where the system does not tell")
	again, err := m.rates(t.Context(), f, 1<<16)
	require.NoError(t, err)
	require.Equal(t, r, again)
	calls := time.Duration(0)
	m.ran = func() time.Duration { calls++; return calls * time.Second }
	r, err = m.rates(t.Context(), f, 1<<16)
	require.NoError(t, err)
	require.Equal(t, 1, computed, "the speeds of computing are known")
	require.Positive(t, r.StreamCoreGBs)
	require.InEpsilon(t, r.StreamCoreGBs, r.forPlan().ReadCoreGBs, 1e-9)
	r.Threads = 1 << 20
	require.InEpsilon(t, r.StreamCoreGBs*float64(runtime.NumCPU()), r.forPlan().ReadWorkGBs, 1e-9)
	again, err = m.rates(t.Context(), f, 1<<16)
	require.NoError(t, err)
	require.InEpsilon(t, r.StreamCoreGBs, again.StreamCoreGBs, 1e-9)
}

// TestOldRatesAreForgotten checks that the file keeps the latest measurements.
func TestOldRatesAreForgotten(t *testing.T) {
	m := rateMeasurer{dir: t.TempDir()}
	known := map[string]Rates{}
	for i := range mostRates + 10 {
		known[fmt.Sprint(i)] = Rates{Measured: time.Unix(int64(i), 0).UTC(), DecodeGBs: 1}
	}
	require.NoError(t, m.save(known))
	known = m.load()
	require.Len(t, known, mostRates)
	require.NotContains(t, known, "9")
	require.Contains(t, known, "10")
}

// TestImpossibleRatesAreMeasuredAnew checks that a damaged cache file makes no wrong plan.
func TestImpossibleRatesAreMeasuredAnew(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir("."))
	require.NoError(t, err)
	defer f.Close()
	m := rateMeasurer{fsys: vfs.OS(), dir: t.TempDir(), threads: 1, weights: 16 << 20}
	m.compute = func(rates.Matmul, int, int64) (float64, float64, error) { return 5, 7, nil }
	_, err = m.rates(t.Context(), f, 1<<16)
	require.NoError(t, err)
	file := filepath.Join(m.dir, ratesFile)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	number := regexp.MustCompile(`("(?:flash_gbs|decode_gbs|prefill_gops)": )[0-9.]+`)
	require.Len(t, number.FindAll(good, -1), 3)
	for _, bad := range []string{"-1", "0", "1e999"} {
		for i := range 3 {
			n := -1
			damaged := number.ReplaceAllFunc(good, func(field []byte) []byte {
				if n++; n != i {
					return field
				}
				return number.ReplaceAll(field, []byte("${1}"+bad))
			})
			require.NoError(t, os.WriteFile(file, damaged, 0o600))
			r, err := m.rates(t.Context(), f, 1<<16)
			require.NoError(t, err)
			require.EqualValues(t, 5, r.DecodeGBs, "%s", damaged)
			require.EqualValues(t, 7, r.PrefillGops, "%s", damaged)
			require.Positive(t, r.FlashGBs, "%s", damaged)
			require.Equal(t, r, rateMeasurer{dir: m.dir}.only(t), "the file is repaired")
		}
	}
}

// only returns the one measurement of the cache file.
func (m rateMeasurer) only(t *testing.T) Rates {
	known := m.load()
	require.Len(t, known, 1)
	for _, r := range known {
		return r
	}
	return Rates{}
}

// TestDisturbedRatesAreMeasuredAgain: a measurement that others took processors from is made
// again at the next starts, until one is not disturbed, which stays, or until the best of a few stays.
func TestDisturbedRatesAreMeasuredAgain(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), hubmodel.Dir("."))
	require.NoError(t, err)
	defer f.Close()
	m := rateMeasurer{fsys: vfs.OS(), threads: 3, weights: 300 << 20, retry: time.Nanosecond}
	var measured int
	var ran time.Duration
	var speeds []float64
	var busy []bool
	m.ran = func() time.Duration { return ran }
	m.compute = func(rates.Matmul, int, int64) (float64, float64, error) {
		ran += time.Nanosecond
		if !busy[measured] {
			ran += time.Hour
		}
		measured++
		return speeds[measured-1], 1, nil
	}
	for _, c := range []struct {
		speeds []float64
		busy   []bool
		want   float64
	}{
		{[]float64{7, 4}, []bool{true, false}, 4}, // the undisturbed one counts alone
		{[]float64{3, 5, 4, 2, 1}, []bool{true, true, true, true, true}, 5},
	} {
		m.dir, measured, speeds, busy = t.TempDir(), 0, c.speeds, c.busy
		for start := range len(c.speeds) + 2 {
			r, err := m.rates(t.Context(), f, 0)
			require.NoError(t, err)
			require.Equal(t, min(start+1, len(c.speeds)), measured)
			if start >= len(c.speeds)-1 {
				require.InDelta(t, c.want, r.DecodeGBs, 0)
			}
			require.Equal(t, c.busy[min(start, len(c.busy)-1)], r.Disturbed())
		}
	}
}
