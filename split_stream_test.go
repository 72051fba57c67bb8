package llmrun_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
)

// splitDevices returns the names of splits that this machine and build have.
func splitDevices(t *testing.T, path string, options llmrun.Options) (names []string) {
	t.Helper()
	for _, name := range []string{"cpu+cpu/2", "cpu+gpu", "cpu+npu"} {
		options.Device.Name = name
		e, err := llmrun.Open(path, options) // measures and tries the split, and saves the results
		if err != nil {
			require.NotEqual(t, "cpu+cpu/2", name, "%v", err)
			require.True(t, errors.Is(err, llmrun.ErrNotBuilt) || llmrun.IsUnsupported(err) || errors.Is(err, llmrun.ErrNoDriver), "%v", err)
			t.Logf("left out: %v", err)
			continue
		}
		require.NoError(t, e.Close())
		names = append(names, name)
	}
	return names
}

// pretendGain changes the measurements in a directory, so that splits pay: both devices are slow and
// equally fast, and passes are faster split.
func pretendGain(t *testing.T, dir string) {
	t.Helper()
	f, report := profiles.Load(dir)
	require.Empty(t, report)
	for name, both := range f.Pairs {
		first, second, ok := strings.Cut(name, " + ")
		require.True(t, ok)
		record := f.Devices[first]
		for i := range record.Times {
			record.Times[i].Alone = max(record.Times[i].Alone, 10*time.Millisecond)
			record.Times[i].Steady = record.Times[i].Alone
		}
		f.Devices[second] = solve.Record{Start: f.Devices[second].Start, Times: record.Times}
		for i := range both.Slowdowns {
			both.Slowdowns[i].Times = 1
		}
		for i := range both.Trials {
			both.Trials[i].Planned = profiles.PassTimes{Prompt: both.Trials[i].Alone.Prompt / 4, Token: both.Trials[i].Alone.Token / 4}
		}
	}
	require.NoError(t, f.Save(dir))
}

// pretendWhole changes the measurements in a directory, so that the second device is predicted to be
// much faster than the first, and that its whole passes were.
func pretendWhole(t *testing.T, dir string) {
	t.Helper()
	pretendGain(t, dir)
	f, report := profiles.Load(dir)
	require.Empty(t, report)
	for name := range f.Pairs {
		_, second, _ := strings.Cut(name, " + ")
		record, start := f.Devices[second], time.Microsecond
		record.Start, record.Times = &start, slices.Clone(record.Times)
		for i := range record.Times {
			record.Times[i].Alone, record.Times[i].Steady = time.Microsecond, time.Microsecond
		}
		f.Devices[second] = record
	}
	require.NoError(t, f.Save(dir))
}

// TestWholePassesOfSplitStayInBudget lets the device of a split compute whole passes. The embedding stays
// on flash, and tokens are those of --device gpu, also in the smallest budget and in a changed one.
func TestWholePassesOfSplitStayInBudget(t *testing.T) {
	shape := layered(t, "tiny")
	shape.Vocab, shape.Tied = 8192, false
	path := writeShape(t, shape, "q8_0")
	options := onGPU(t, path, 0) // skips without a driver
	options.Cache.Dir, options.Memory.Chunk = t.TempDir(), 64
	answer := func(e *llmrun.Engine) []int32 {
		o := limit(6)
		o.IgnoreEOS = true
		s := newSession(t, e)
		defer func() { require.NoError(t, s.Close()) }()
		return complete(t, s.GenerateIDs(t.Context(), someIDs(e, 20), o)).IDs
	}
	e := open(t, path, options)
	want := answer(e)
	require.NoError(t, e.Close())

	options.Device.Name = "cpu+gpu"
	require.NoError(t, open(t, path, options).Close()) // measures
	pretendWhole(t, options.Cache.Dir)
	require.NoError(t, open(t, path, options).Close()) // the trial of whole passes
	pretendWhole(t, options.Cache.Dir)
	e = open(t, path, options)
	require.NotNil(t, e.Placement(), "the device computes no whole passes")
	require.Zero(t, e.Placement().Host, "the embedding is in memory")
	require.Equal(t, want, answer(e))
	least := minimum(t, path, options)
	require.NoError(t, e.SetBudget(least))
	require.Equal(t, want, answer(e))
	require.NoError(t, e.Close())

	options.Memory.RAM = least
	e = open(t, path, options)
	require.Equal(t, want, answer(e))
	require.LessOrEqual(t, e.Memory().Ledger, options.Memory.RAM)
	require.NoError(t, e.Close())
}

// TestSplitRowsAreStreamed splits matmuls over two devices in the smallest budget: the CPU's rows are
// read from flash. The tokens are those of the same split in memory, and the ledger stays within the
// budget, also when the budget changes. Plans agree with engines at every budget.
func TestSplitRowsAreStreamed(t *testing.T) {
	shape := layered(t, "tiny")
	shape.Vocab, shape.Tied = 4096, false
	path := writeShape(t, shape, "q4_0")
	options := llmrun.Options{Threads: 1, Context: 128, Cache: llmrun.CacheOptions{Dir: t.TempDir()}, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, Chunk: 64}}
	for _, name := range splitDevices(t, path, options) {
		t.Run(name, func(t *testing.T) {
			options := options
			options.Device.Name = name
			pretendGain(t, options.Cache.Dir)
			require.NoError(t, open(t, path, options).Close()) // the trial of the new splits
			pretendGain(t, options.Cache.Dir)
			answer := func(e *llmrun.Engine) []int32 {
				o := limit(6)
				o.IgnoreEOS = true
				s := newSession(t, e)
				defer func() { require.NoError(t, s.Close()) }()
				return complete(t, s.GenerateIDs(t.Context(), someIDs(e, 100), o)).IDs
			}
			whole := open(t, path, options)
			if whole.Placement() != nil {
				t.Skip("the device computes whole passes")
			}
			want := answer(whole)
			require.NoError(t, whole.Close())
			options.Memory.RAM = minimum(t, path, options)
			e := open(t, path, options)
			plan := e.Memory().Plan
			// What a driver takes to compile its kernels may be the minimum, in which a small model fits.
			require.True(t, strings.HasSuffix(name, "pu") || !plan.Resident(), name)
			require.Equal(t, want, answer(e))
			require.LessOrEqual(t, e.Memory().Ledger, options.Memory.RAM)
			require.NoError(t, e.SetBudget(llmrun.NoLimit))
			require.Equal(t, want, answer(e))
			trim(t, e, llmrun.TrimCritical)
			plan = e.Memory().Plan
			require.True(t, strings.HasSuffix(name, "pu") || !plan.Resident(), name)
			require.Equal(t, want, answer(e))
			both := 0
			for _, m := range e.SplitMatmuls() {
				t.Logf("%s: %.2f of one token, %.2f of %d", m.Name, m.DecodeFraction, m.PrefillFraction, m.PrefillTokens)
				if m.PrefillFraction > 0 && m.PrefillFraction < 1 {
					both++
				}
			}
			require.Positive(t, both, "no matmul is split")
			requireAgreement(t, agreeCell{path: path, options: options}, llmrun.PlanOptions{})
		})
	}
}

// TestPlansOfSplitsPredict: the plan of a split predicts a speed once a run has timed its passes: that of
// the passes.
func TestPlansOfSplitsPredict(t *testing.T) {
	shape := layered(t, "tiny")
	shape.Layers = 2
	path := writeShape(t, shape, "q4_0")
	options := llmrun.Options{Threads: 1, Context: 128, Cache: llmrun.CacheOptions{Dir: t.TempDir()}, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, Chunk: 32}, Device: llmrun.DeviceOptions{Name: "cpu+cpu/2"}}
	plan := func() *llmrun.MemoryPlan {
		p, err := llmrun.PlanMemory(t.Context(), path, options, llmrun.PlanOptions{})
		require.NoError(t, err)
		return p
	}
	require.Zero(t, plan().PredictedDecode)
	pretendGain(t, options.Cache.Dir)
	require.NoError(t, open(t, path, options).Close()) // the trial
	pretendGain(t, options.Cache.Dir)
	f, report := profiles.Load(options.Cache.Dir)
	require.Empty(t, report)
	require.Len(t, f.Pairs, 1)
	for _, both := range f.Pairs {
		require.Len(t, both.Trials, 1)
		took, p := both.Trials[0].Planned, plan()
		require.InEpsilon(t, 1/took.Token.Seconds(), p.PredictedDecode, 1e-9)
		require.InEpsilon(t, 32/took.Prompt.Seconds(), p.PredictedPrefill, 1e-9)
		require.InDelta(t, p.PredictedDecode, p.Decode.Start, 0)
	}
}
