package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/internal/enginemodel"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/tiering"
)

// tinyModel writes a small model.
func tinyModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	size, err := Synth(t.Context(), SynthOptions{Path: path, Shape: "tiny", Quant: "q4_0"})
	require.NoError(t, err)
	require.Positive(t, size)
	return path
}

func tinyBench(path string) Options {
	return Options{
		Path: path, Prefill: []int{16, 100}, Decode: []int{3}, Depths: []int{0, 32}, Threads: []int{2, 1, 2},
		Repeats: 2, SweepBytes: 8 << 20,
	}
}

func TestBenchTimesEveryCombination(t *testing.T) {
	o := tinyBench(tinyModel(t))
	var runs, all int64
	o.Running = func(done, total int64) { runs, all = done, total }
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, all, runs)
	type key struct {
		name           string
		threads, depth int
	}
	seen := map[key]bool{}
	for _, test := range r.Tests {
		seen[key{test.Name, test.Threads, test.Depth}] = true
		require.Len(t, test.samples, o.Repeats)
		require.Positive(t, test.TokPerSec.Min)
		require.LessOrEqual(t, test.TokPerSec.Min, test.TokPerSec.Median)
		require.LessOrEqual(t, test.TokPerSec.Median, test.TokPerSec.Max)
		require.Positive(t, test.OfLimit)
	}
	require.Len(t, seen, 3*2*2)
	require.True(t, seen[key{"pp100", 1, 32}])
	require.True(t, seen[key{"tg3", 2, 0}])
	require.Len(t, r.Limits.ByThreads, 2)
	require.Equal(t, r.Limits.ReadGBs, r.Limits.at(2).ReadGBs)
	require.Positive(t, r.Limits.Int8Gops)
	require.NotEmpty(t, r.Limits.Instruction)
	require.Equal(t, "k8v8", r.KV)
}

// TestWeightsSettleBeforeTests: weights that open as a mapping have moved to memory when the first test begins.
func TestWeightsSettleBeforeTests(t *testing.T) {
	dir := t.TempDir()
	pack := filepath.Join(dir, "m.pack")
	_, err := llmrun.Import(t.Context(), tinyModel(t), pack, llmrun.ImportOptions{})
	require.NoError(t, err)
	for _, tests := range [][2][]int{{{16}, nil}, {nil, {3}}} {
		o := tinyBench(pack)
		o.Prefill, o.Decode, o.Depths, o.Threads = tests[0], tests[1], []int{0}, []int{1}
		var model *exec.Model
		o.Open = func(ctx context.Context, threads, longest int) (*Opened, error) {
			e, err := llmrun.OpenContext(ctx, pack, llmrun.Options{Threads: threads, Context: longest, Memory: llmrun.MemoryOptions{RAM: 64 << 20}})
			if err != nil {
				return nil, err
			}
			model = enginemodel.Of(e)
			if !model.Promoting() {
				t.Skip("the page cache does not hold the file, or the system does not report it")
			}
			return &Opened{Model: model, Close: e.Close}, nil
		}
		o.Running = func(done, _ int64) {
			require.False(t, model.Promoting(), "before the end of test %d", done)
		}
		_, err := Run(t.Context(), o)
		require.NoError(t, err)
	}
}

// TestReportsHaveTheFieldsThatProgramsRead checks the JSON names that scripts use.
func TestReportsHaveTheFieldsThatProgramsRead(t *testing.T) {
	o := tinyBench(tinyModel(t))
	o.Prefill, o.Decode, o.Depths, o.Threads, o.Repeats = []int{16}, nil, []int{0}, []int{1}, 1
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotRegexp(t, `"[^"]*[A-Z][^"]*":`, string(text), "a field has no JSON name")
	var got struct {
		Limits struct {
			Read float64 `json:"read_gb_s"`
			Int8 float64 `json:"int8_gop_s"`
		} `json:"limits"`
		Tests []struct {
			Name    string `json:"name"`
			Threads int    `json:"threads"`
			Depth   *int   `json:"depth"`
			Speed   struct {
				Median float64 `json:"median"`
				Min    float64 `json:"min"`
				Max    float64 `json:"max"`
			} `json:"tok_per_s"`
			OfLimit float64 `json:"of_limit"`
		} `json:"tests"`
		Peak *int64 `json:"peak_rss_bytes"`
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.Positive(t, got.Limits.Read)
	require.Positive(t, got.Limits.Int8)
	require.NotNil(t, got.Peak)
	require.Len(t, got.Tests, 1)
	test := got.Tests[0]
	require.Equal(t, "pp16", test.Name)
	require.Equal(t, 1, test.Threads)
	require.NotNil(t, test.Depth)
	require.Positive(t, test.OfLimit)
	require.Positive(t, min(test.Speed.Median, test.Speed.Min, test.Speed.Max))
}

// TestSumUp checks the arithmetic with values computed by hand.
func TestSumUp(t *testing.T) {
	l := &Limits{ByThreads: []LimitsAt{{Threads: 2, ReadGBs: 40, Int8Gops: 1000}}}
	decode := Test{Threads: 2, Decode: true, BytesPerToken: 1e9, samples: []float64{30, 10, 20, 40}}
	decode.summarize(l)
	require.Equal(t, Spread{Median: 25, Min: 10, Max: 40}, decode.TokPerSec)
	require.InDelta(t, 25.0/40, decode.OfLimit, 1e-9)
	prefill := Test{Threads: 2, OpsPerToken: 2e9, samples: []float64{100}}
	prefill.summarize(l)
	require.Equal(t, Spread{Median: 100, Min: 100, Max: 100}, prefill.TokPerSec)
	require.InDelta(t, 0.2, prefill.OfLimit, 1e-9)
}

func TestBenchRefuses(t *testing.T) {
	path := tinyModel(t)
	t.Run("more than the context", func(t *testing.T) {
		o := tinyBench(path)
		o.Depths = []int{2040}
		_, err := Run(t.Context(), o)
		require.ErrorIs(t, err, ErrBench)
		require.ErrorContains(t, err, "2048")
	})
	t.Run("an unknown precision", func(t *testing.T) {
		o := tinyBench(path)
		o.KV = "k1v1"
		_, err := Run(t.Context(), o)
		require.ErrorContains(t, err, "k1v1")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Run(ctx, tinyBench(path))
		require.ErrorIs(t, err, context.Canceled)
	})
}

// TestMeasuredPeakForgetsWhatWasBefore releases a large amount of memory before the watch begins.
func TestMeasuredPeakForgetsWhatWasBefore(t *testing.T) {
	testutil.Measured(t)
	const large = 256 << 20
	frame, err := tiering.Alloc(tiering.New(0), tiering.Scratch, large)
	require.NoError(t, err)
	for i := 0; i < large; i += 4096 {
		frame.Bytes()[i] = 1
	}
	var with, without memoryWatch
	with.begin()
	with.sample()
	frame.Free()
	without.begin()
	without.sample()
	if with.peak == 0 {
		t.Skip("this system does not tell")
	}
	require.Greater(t, with.peak, int64(large))
	require.Less(t, without.peak, with.peak-large/2)
	require.Positive(t, availableMemory())
}

func TestSynthKeepsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	o := SynthOptions{Path: path, Shape: "tiny", Quant: "q8_0"}
	_, err := Synth(t.Context(), o)
	require.ErrorIs(t, err, ErrExists)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
	o.Force = true
	_, err = Synth(t.Context(), o)
	require.NoError(t, err)
	o.Shape = "enormous"
	_, err = Synth(t.Context(), o)
	require.ErrorIs(t, err, ErrShape)
	o.Shape, o.Path = "tiny", filepath.Dir(path)
	_, err = Synth(t.Context(), o)
	require.ErrorContains(t, err, "directory")
}

func TestShapes(t *testing.T) {
	shapes, err := Shapes("q4_0")
	require.NoError(t, err)
	require.Greater(t, len(shapes), 15)
	_, err = Shapes("q9")
	require.Error(t, err)
}

// TestBudgetWithoutRoomForLimits measures no bandwidth where the budget has no room for it, and less
// memory where it has little.
func TestBudgetWithoutRoomForLimits(t *testing.T) {
	var l Limits
	l.setSweep(0, 1<<20)
	require.Zero(t, l.SweepBytes)
	require.NoError(t, l.measure([]int{1}))
	require.Zero(t, l.ReadGBs)
	require.Positive(t, l.Int8Gops)
	test := Test{Decode: true, Threads: 1, Length: 1, BytesPerToken: 1 << 20, samples: []float64{3}}
	test.summarize(&l)
	require.Zero(t, test.OfLimit)

	held := cmp.Or(residentMemory(), programBytes)
	l.setSweep(0, held+32<<20)
	require.Greater(t, l.SweepBytes, 8<<20)
	require.LessOrEqual(t, l.SweepBytes, 32<<20)
	require.True(t, l.MayBeCached())
	require.NoError(t, l.measure([]int{1}))
	require.Positive(t, l.ReadGBs)
}
