package deviceplan

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/lab/sim"
	"github.com/llmrun/llmrun/quant"
)

// pairHere returns two devices of this machine: its groups of cores, or the CPU and a slowed CPU.
func pairHere() []string {
	if pair := Groups(Devices()); pair != nil {
		return pair
	}
	return []string{"cpu", "cpu/2"}
}

func tinyPlan(t *testing.T) Options {
	return Options{
		Model: ModelSource{Shape: "tiny", Quant: "q4_0"}, Devices: pairHere(), Tokens: []int{1, 40}, Dir: t.TempDir(),
		Notify: func(text string) { t.Error("unexpected:", text) },
	}
}

// TestPlanDevices checks that a plan contains every matrix of the model for every number of tokens,
// and that a second plan uses the saved measurements.
func TestPlanDevices(t *testing.T) {
	o := tinyPlan(t)
	o.Check = true
	plan, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, plan.Devices, 2)
	require.Len(t, plan.Predictions, 2)
	require.Positive(t, plan.Measured)
	matrices := map[int]int{}
	for _, row := range plan.Matmuls {
		matrices[row.Tokens] += row.Count
		require.Len(t, row.Alone, 2)
		// Times are measured and vary on a busy machine.
		require.LessOrEqual(t, row.Predicted, max(row.Alone[0], row.Alone[1]))
	}
	require.Equal(t, map[int]int{1: 2*7 + 1, 40: 2 * 7}, matrices, "the output matrix runs only for one token")
	require.Len(t, plan.Passes, 2)
	var text strings.Builder
	plan.WriteTables(&text)
	require.Contains(t, text.String(), "| output | 512×256 Q6_K | 1 |")

	o.Check = false
	again, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	require.Zero(t, again.Measured)
	require.Len(t, again.Matmuls, len(plan.Matmuls))
}

// TestPlanForManyTokens checks that the plan reserves memory for held-out matmuls, which have more
// tokens than the plan.
func TestPlanForManyTokens(t *testing.T) {
	o := tinyPlan(t)
	o.Check, o.Devices, o.Tokens = true, o.Devices[:1], []int{2560}
	plan, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, plan.Predictions, 1)
}

// TestUnusableSavedProfiles checks that a plan measures again if the saved measurements are damaged
// or have another version, and that it reports the reason.
func TestUnusableSavedProfiles(t *testing.T) {
	o := tinyPlan(t)
	o.Devices, o.Tokens = []string{"cpu"}, []int{1}
	_, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	file := filepath.Join(o.Dir, profiles.Name)
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	for notice, content := range map[string]string{
		"version 0, want 2": strings.Replace(string(kept), `"version": 2`, `"version": 0`, 1),
		"unusable":          string(kept[:len(kept)/2]),
		"invalid record":    strings.ReplaceAll(string(kept), `"rows": `, `"rows": -`),
		"made again: solve": strings.ReplaceAll(string(kept), `"steady_ns": `, `"steady_ns": -`),
	} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		said := ""
		o.Notify = func(text string) { said = text }
		plan, err := PlanDevices(t.Context(), o)
		require.NoError(t, err)
		require.Contains(t, said, notice)
		require.Positive(t, plan.Measured)
	}
}

// TestPlanHasEachLengthOnce checks that a plan always contains one token, and contains repeated
// numbers of tokens once.
func TestPlanHasEachLengthOnce(t *testing.T) {
	o := tinyPlan(t)
	o.Devices, o.Tokens = []string{"cpu"}, []int{3, 2, 3}
	plan, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	var lengths []int
	for _, pass := range plan.Passes {
		lengths = append(lengths, pass.Tokens)
	}
	require.Equal(t, []int{1, 2, 3}, lengths)
	require.Equal(t, []int{3, 2, 3}, o.Tokens)
}

// TestPlanWithoutDirectory checks that PlanDevices returns a plan and a notice if it cannot save the
// measurements.
func TestPlanWithoutDirectory(t *testing.T) {
	o := tinyPlan(t)
	o.Devices, o.Tokens = []string{"cpu"}, []int{1}
	o.Dir = filepath.Join(o.Dir, "file")
	require.NoError(t, os.WriteFile(o.Dir, nil, 0o600))
	said := ""
	o.Notify = func(text string) { said = text }
	plan, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	require.NotEmpty(t, plan.Matmuls)
	require.Contains(t, said, "are not saved")
}

// TestRemeasuringKeepsOtherMatmuls checks that a remeasurement keeps the measurements of other
// matmuls, also if it is interrupted.
func TestRemeasuringKeepsOtherMatmuls(t *testing.T) {
	o := tinyPlan(t)
	_, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	shapes := func() (list []solve.Shape) {
		kept, notice := profiles.Load(o.Dir)
		require.Empty(t, notice)
		for _, name := range slices.Sorted(maps.Keys(kept.Devices)) {
			for _, timing := range kept.Devices[name].Times {
				list = append(list, timing.Shape)
			}
		}
		return list
	}
	known := shapes()
	kept, _ := profiles.Load(o.Dir)
	pair := profiles.Keys{slices.Collect(maps.Keys(kept.Pairs))[0]}
	profiles.SaveTrial(o.Dir, pair, profiles.Trial{}, o.Notify)
	o.Remeasure, o.Tokens = true, []int{1}
	plan, err := PlanDevices(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, plan.Measured)
	require.Equal(t, known, shapes())
	kept, _ = profiles.Load(o.Dir)
	require.Nil(t, kept.Trial(pair, profiles.Passes{}), "a new measurement deletes the trial of the split")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = PlanDevices(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, known, shapes())
}

// TestPlanDevicesIsInterrupted checks that an interrupted PlanDevices saves the measurements so far.
func TestPlanDevicesIsInterrupted(t *testing.T) {
	o := tinyPlan(t)
	ctx, cancel := context.WithCancel(t.Context())
	o.Running = func(done, _ int64) {
		if done == 3 {
			cancel()
		}
	}
	_, err := PlanDevices(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	kept, notice := profiles.Load(o.Dir)
	require.Empty(t, notice)
	times := 0
	for _, r := range kept.Devices {
		times += len(r.Times)
	}
	require.Equal(t, 2, times)
}

// TestDriversWithUnusableDevices checks that the table distinguishes a driver with some unusable
// devices from a driver without devices.
func TestDriversWithUnusableDevices(t *testing.T) {
	list := DeviceList{
		Devices: []DeviceInfo{{Name: "opencl-0", Driver: "opencl", Kind: "GPU"}},
		Missing: []MissingDriver{{"opencl", "GPU", "one: broken\ntwo: broken"}, {"onnxruntime", "NPU", "no library"}},
	}
	var text strings.Builder
	list.WriteTable(&text)
	require.Contains(t, text.String(), "\nopencl       GPU  not all: one: broken; two: broken\nonnxruntime  NPU  none: no library\n")

	list.Devices = append(list.Devices, DeviceInfo{Name: "onnxruntime-cpu", Driver: "onnxruntime", Kind: "CPU"})
	text.Reset()
	list.WriteTable(&text)
	require.Contains(t, text.String(), "opencl-0        GPU")
	require.Contains(t, text.String(), "\nonnxruntime-cpu CPU")
	require.Contains(t, text.String(), "\nopencl          GPU  not all")
}

// TestPlanDevicesRefuses checks the errors for invalid devices and shapes.
func TestPlanDevicesRefuses(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"unknown device":                  func(o *Options) { o.Devices = []string{"abacus"} },
		"give one or two, not 3":          func(o *Options) { o.Devices = []string{"cpu", "cpu/2", "cpu/3"} },
		`"cpu" is named twice`:            func(o *Options) { o.Devices = []string{"cpu", "cpu"} },
		`there is no such shape: "giant"`: func(o *Options) { o.Model.Shape = "giant" },
	} {
		o := tinyPlan(t)
		change(&o)
		_, err := PlanDevices(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

// perToken is a cost model in which time is proportional to the number of tokens.
type perToken struct{}

func (perToken) Time(_ int, op hetero.Op) time.Duration { return time.Duration(op.Tokens) }
func (perToken) Start(int) time.Duration                { return 0 }
func (perToken) Slowdown(hetero.Op) float64             { return 1 }

// TestStaticDevicesAlone checks that a static device computes a whole matmul padded, or in several
// prepared lengths.
func TestStaticDevicesAlone(t *testing.T) {
	soc, err := sim.New("8-gen-3", sim.Options{})
	require.NoError(t, err)
	l := &deviceLab{devices: []hetero.Device{soc.GPU, soc.NPU}}
	defer func() { require.NoError(t, l.Close()) }()
	l.Profiler = solve.NewProfiler(l.devices, nil)
	p := &planner{o: &Options{}, lab: l}
	solver := p.newSolver(perToken{}, solve.DefaultSteps)
	for tokens, want := range map[int][]int{1: {1}, 9: {32}, 32: {32}, 70: {64, 32}, 2000: {1024, 512, 256, 128, 64, 32}} {
		op := hetero.Op{Tokens: tokens, Rows: 512, Cols: 256, Type: quant.Q8_0}
		require.Equal(t, []solve.Piece{{Device: 0, Tokens: tokens, Padded: tokens, Rows: 512}}, p.bestAlone(op, 0, solver).Pieces)
		var lengths []int
		for _, piece := range p.bestAlone(op, 1, solver).Pieces {
			require.Equal(t, 1, piece.Device)
			lengths = append(lengths, piece.Padded)
		}
		require.Equal(t, want, lengths)
	}
}

// TestSlowSplitsAreRejected checks that the plan uses a single device if it was measured as faster
// than the split.
func TestSlowSplitsAreRejected(t *testing.T) {
	op := hetero.Op{Tokens: 4, Rows: 512, Cols: 256, Type: quant.Q8_0}
	l, err := OpenLab(pairHere(), []hetero.Op{op})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	split := solve.Split{Cut: solve.Row, Time: 5, Pieces: []solve.Piece{
		{Device: 0, Tokens: 4, Padded: 4, Rows: 256}, {Device: 1, Tokens: 4, Padded: 4, Row: 256, Rows: 256},
	}}
	singles := []solve.Split{Alone(op, 0), Alone(op, 1)}
	for _, c := range []struct {
		split, first, second time.Duration
		want                 solve.Split
	}{
		{10, 11, 12, split},
		{10, 9, 12, singles[0]},
		{10, 11, 9, singles[1]},
	} {
		p := &planner{o: &Options{}, lab: l}
		p.profile, _ = profiles.Load("")
		got, checked, err := p.check(t.Context(), op, split, singles)
		require.NoError(t, err)
		require.Nil(t, checked, "the profile has no check of this split")
		require.Equal(t, split, got)

		pair := l.keys()
		p.profile.AddCheck(pair, profiles.Check{Shape: solve.ShapeOf(op), Pieces: split.Pieces, Split: c.split, Alone: []time.Duration{c.first, c.second}})
		got, checked, err = p.check(t.Context(), op, split, singles)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
		require.Equal(t, len(c.want.Pieces) == 2, checked.Kept)
	}
}

// TestEarlyStop checks that measurements stop early for a clearly slower split, and for all splits
// after the time limit.
func TestEarlyStop(t *testing.T) {
	for _, test := range []struct {
		name  string
		took  []time.Duration
		times []int // number of measurements of each
	}{
		{"the second is clearly slower", []time.Duration{10 * time.Millisecond, 16 * time.Millisecond, 14 * time.Millisecond}, []int{8, 3, 8}},
		{"all take long", []time.Duration{400 * time.Millisecond, 300 * time.Millisecond}, []int{3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := &handClock{}
			d := earlyStop{clock: clock}
			times := make([]int, len(test.took))
			least, err := shortestInTurns(t.Context(), len(test.took), checkRepeats, d.continues, func(i int) (time.Duration, error) {
				times[i]++
				clock.now += test.took[i]
				return test.took[i], nil
			})
			require.NoError(t, err)
			require.Equal(t, test.took, least)
			require.Equal(t, test.times, times)
		})
	}
}

// handClock is a clock that the test advances.
type handClock struct{ now time.Duration }

func (c *handClock) Now() time.Duration    { return c.now }
func (c *handClock) Sleep(d time.Duration) { c.now += d }
