package split

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/tiering"
)

// pretend stores invented measurements: a matmul takes a millisecond per token on the CPU
// and almost no time on the device, so that the device is predicted to be faster with all
// of them.
func pretend(t *testing.T, dir, device, path string, model exec.Options) {
	t.Helper()
	pretendTimes(t, dir, device, path, model, [2]time.Duration{time.Millisecond, time.Microsecond})
}

// pretendTimes is pretend with the time of a matmul per token, on the CPU and on the device.
func pretendTimes(t *testing.T, dir, device, path string, model exec.Options, perToken [2]time.Duration) {
	t.Helper()
	f := files(t, path)
	matmuls, err := weights.Matmuls(f)
	require.NoError(t, errors.Join(err, f.Close()))
	model.Budget = tiering.New(0)
	l, err := openBench(matmuls, &model, &Options{Device: device, Dir: dir})
	require.NoError(t, err)
	p := &planner{bench: l, chunk: model.Chunk}
	var times [2][]solve.Timing
	var slowdowns []solve.Slowdown
	for _, matmul := range matmuls {
		for _, op := range p.samples(matmul) {
			for d, took := range perToken {
				took *= time.Duration(op.Tokens)
				times[d] = append(times[d], solve.Timing{Shape: solve.ShapeOf(op), Alone: took, Steady: took})
			}
			op.Rows, op.Cols = 2048, 2048 // see solve.Profiler
			slowdowns = append(slowdowns, solve.Slowdown{Shape: solve.ShapeOf(op), Times: 1})
		}
	}
	start := time.Microsecond
	for d, key := range l.keys {
		r := solve.Record{Start: &start, Times: times[d]}
		r.Merge(l.profile.Devices[key])
		l.profile.Devices[key] = r
	}
	pair := strings.Join(l.keys, " + ")
	both := l.profile.Pairs[pair]
	both.Slowdowns = slowdowns
	l.profile.Pairs[pair] = both
	require.NoError(t, errors.Join(l.profile.Save(dir), l.close()))
}

// opening is a model that a test loads repeatedly, and the reports of the last load.
type opening struct {
	Options
	weights string
	model   exec.Options
	reports []string
	loads   int // loads of the weights
}

func newOpening(t *testing.T, device string) *opening {
	o := &opening{weights: "q4_0", model: small, Options: Options{Device: device, Dir: t.TempDir()}}
	o.Progress = func(int, int) { t.Error("unexpected measurement") }
	o.Report = func(text string) { o.reports = append(o.reports, text) }
	o.model.Progress = func(done, total int64) {
		if done == total {
			o.loads++
		}
	}
	pretend(t, o.Dir, device, o.weights, small)
	return o
}

// openSplit loads the model. It reports whether prompts and single tokens are split,
// whether a trial was made, and how often weights were loaded.
func (o *opening) openSplit(t *testing.T) (prompts, tokens, tried bool, loads int) {
	o.reports, o.loads = nil, 0
	m, err := loadAs(t, t.Context(), o.weights, o.model, o.Options)
	require.NoError(t, err)
	for _, d := range m.SplitStats() {
		prompts = prompts || d.Split.Batch < d.Rows && !d.LastTokenOnly
		tokens = tokens || d.Split.Single < d.Rows
		require.Positive(t, d.Split.SingleTime, d.Name)
		require.Positive(t, d.Split.BatchTime, d.Name)
		require.True(t, !d.LastTokenOnly || d.Split.Single == d.Split.Batch)
	}
	m.Close()
	tried = slices.ContainsFunc(o.reports, func(text string) bool { return strings.Contains(text, "trial of the split with") })
	return prompts, tokens, tried, o.loads
}

// TestTrialOverridesPrediction loads a model with a device that is much slower than
// predicted. The device gets no rows, in the second load too.
func TestTrialOverridesPrediction(t *testing.T) {
	o := newOpening(t, slowed(16))
	takes(t, profiles.PassTimes{Prompt: 100 * time.Millisecond, Token: 10 * time.Millisecond}, profiles.PassTimes{Prompt: 1600 * time.Millisecond, Token: 160 * time.Millisecond})
	for _, first := range []bool{true, false} {
		prompts, tokens, tried, loads := o.openSplit(t)
		require.False(t, prompts || tokens, o.reports)
		require.Equal(t, first, tried)
		require.Equal(t, map[bool]int{true: 3, false: 1}[first], loads)
		said := strings.Join(o.reports, "\n")
		require.Contains(t, said, "prompts stay on the CPU: a pass split with "+o.Device)
		require.Contains(t, said, "single tokens stay on the CPU: a pass split with "+o.Device)
	}
	o.Alone = true // forces the device without a trial
	prompts, tokens, tried, _ := o.openSplit(t)
	require.True(t, prompts && tokens && !tried)
}

// takes replaces the timing of passes: they take the given times, first on the CPU alone
// and then as planned.
func takes(t *testing.T, list ...profiles.PassTimes) {
	whole := timePasses
	t.Cleanup(func() { timePasses = whole })
	timePasses = func(timing, context.Context, *exec.Model) (profiles.PassTimes, error) {
		require.NotEmpty(t, list, "unexpected timing")
		took := list[0]
		list = list[1:]
		return took, nil
	}
}

// TestTrialLosses checks that trials decide separately about prompts and single tokens, and
// that the results are stored.
func TestTrialLosses(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		planned         profiles.PassTimes // alone is 100 ms and 10 ms
		prompts, tokens bool
		loads           int
	}{
		"both win":        {profiles.PassTimes{Prompt: 50 * ms, Token: 5 * ms}, true, true, 2},
		"prompts win":     {profiles.PassTimes{Prompt: 50 * ms, Token: 11 * ms}, true, false, 3},
		"tokens win":      {profiles.PassTimes{Prompt: 200 * ms, Token: 5 * ms}, false, true, 3},
		"gains too small": {profiles.PassTimes{Prompt: 97 * ms, Token: 9900 * time.Microsecond}, false, false, 3},
		"equal times":     {profiles.PassTimes{Prompt: 100 * ms, Token: 10 * ms}, false, false, 3},
		"small gains":     {profiles.PassTimes{Prompt: 94 * ms, Token: 9 * ms}, true, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			takes(t, profiles.PassTimes{Prompt: 100 * ms, Token: 10 * ms}, c.planned)
			o := newOpening(t, group())
			for _, first := range []bool{true, false} {
				prompts, tokens, tried, loads := o.openSplit(t)
				require.Equal(t, []bool{c.prompts, c.tokens, first}, []bool{prompts, tokens, tried})
				require.True(t, first || loads == 1)
				require.True(t, !first || loads == c.loads)
			}
		})
	}
}

// TestTrialKeys checks that a trial's result depends on the device, threads, chunk, model
// and split.
func TestTrialKeys(t *testing.T) {
	took := profiles.PassTimes{Prompt: time.Second, Token: time.Second}
	const trials = 6
	takes(t, slices.Repeat([]profiles.PassTimes{took, took}, trials)...)
	o := newOpening(t, group())
	for _, change := range []func(){
		func() {},
		func() { o.model.Threads = 2 },
		func() { o.model.Chunk = 64 },
		func() { o.Device = slowed(3) },
		func() { o.Quota = 0.5 },
		func() { o.weights = "q8_0" },
	} {
		change()
		pretend(t, o.Dir, o.Device, o.weights, o.model)
		_, _, tried, _ := o.openSplit(t)
		require.True(t, tried)
		_, _, tried, _ = o.openSplit(t)
		require.False(t, tried)
	}
	require.Len(t, o.trials(t), trials)
}

// trials returns the stored trials.
func (o *opening) trials(t *testing.T) (list []profiles.Trial) {
	f, notice := profiles.Load(o.Dir)
	require.Empty(t, notice)
	for _, pair := range f.Pairs {
		list = append(list, pair.Trials...)
	}
	return list
}

// TestCancelTrial cancels a trial at several points; no result is stored.
func TestCancelTrial(t *testing.T) {
	o := newOpening(t, group())
	progress, notice, whole := o.model.Progress, o.Report, timePasses
	t.Cleanup(func() { timePasses = whole })
	for at, when := range map[string]func(cancel func()){
		"before passes alone":    func(cancel func()) { o.Report = func(string) { cancel() } },
		"before split passes":    func(cancel func()) { o.model.Progress = o.onLoad(2, cancel) },
		"while weights are read": func(cancel func()) { o.model.Progress = func(int64, int64) { cancel() } },
		"in a pass": func(cancel func()) {
			timePasses = func(which timing, ctx context.Context, m *exec.Model) (profiles.PassTimes, error) {
				cancel()
				return whole(which, ctx, m)
			}
		},
	} {
		t.Run(at, func(t *testing.T) {
			o.model.Progress, o.Report, timePasses = progress, notice, whole
			ctx, cancel := context.WithCancel(t.Context())
			when(cancel)
			_, err := loadAs(t, ctx, o.weights, o.model, o.Options)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, o.trials(t))
		})
	}
}

// onLoad returns a progress function that runs call after a number of loads.
func (o *opening) onLoad(times int, call func()) func(done, total int64) {
	return func(done, total int64) {
		if done == total {
			if times--; times == 0 {
				call()
			}
		}
	}
}

// TestTrialWithoutMemory checks that a model that does not fit on the CPU alone is split
// without a trial, and that no result is stored.
func TestTrialWithoutMemory(t *testing.T) {
	whole := timePasses
	t.Cleanup(func() { timePasses = whole })
	o := newOpening(t, group())
	for fits := range 2 {
		left := fits
		timePasses = func(timing, context.Context, *exec.Model) (profiles.PassTimes, error) {
			if left--; left < 0 {
				return profiles.PassTimes{}, tiering.ErrBudget
			}
			return profiles.PassTimes{Prompt: time.Second}, nil
		}
		prompts, tokens, tried, _ := o.openSplit(t)
		require.True(t, prompts && tokens && tried)
		require.Contains(t, strings.Join(o.reports, "\n"), "is used without a trial")
		require.Empty(t, o.trials(t))
	}
	o.model.Budget = tiering.New(1 << 20)
	_, err := loadAs(t, t.Context(), o.weights, o.model, o.Options)
	require.ErrorIs(t, err, tiering.ErrBudget)
}

// TestTimePasses times each kind of pass, with chunks up to a size beyond the context.
func TestTimePasses(t *testing.T) {
	f := files(t, "q4_0")
	m, err := exec.Load(t.Context(), f, small)
	require.NoError(t, errors.Join(err, f.Close()))
	defer m.Close()
	for _, which := range []timing{{prompts: true, chunk: 8}, {tokens: true, chunk: 8}, {prompts: true, tokens: true, chunk: 1 << 20}} {
		took, err := timePasses(which, t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, []bool{which.prompts, which.tokens}, []bool{took.Prompt > 0, took.Token > 0})
	}
}
