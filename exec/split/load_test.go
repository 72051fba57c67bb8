package split

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// group returns a device that this machine has and that is not the host itself: a part of its
// cores, or on one core the host's cores at half their speed.
func group() string {
	if name := partOfCores(); name != "" {
		return name
	}
	return slowed(2)
}

// slowed returns a device that is the given number of times slower than the cores that it uses.
func slowed(times int) string {
	return fmt.Sprintf("%s/%d", cmp.Or(partOfCores(), "cpu"), times)
}

// partOfCores returns the name of the last device that is a part of the CPU's cores, if there is one.
func partOfCores() (name string) {
	if _, slow := threadpool.CoreGroups(); len(slow) > 0 {
		return "cpu-slow"
	}
	if threadpool.DefaultThreads() > 1 {
		return "cpu-b"
	}
	return ""
}

// files returns a small model.
func files(t *testing.T, weights string) *modelfile.Files {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	return filesOf(t, shape, weights)
}

// filesOf returns a model of a shape.
func filesOf(t *testing.T, shape synth.Shape, weights string) *modelfile.Files {
	fsys := vfs.NewMem()
	require.NoError(t, synth.Write(t.Context(), fsys, "m.gguf", synth.Options{Shape: shape, Quant: weights}))
	f, err := modelfile.Open(fsys, "m.gguf")
	require.NoError(t, err)
	return f
}

// small are the options of a small model.
var small = exec.Options{Threads: 1, Chunk: 32}

// load loads a small model with a device.
func load(t *testing.T, ctx context.Context, o Options) (*exec.Model, error) {
	return loadAs(t, ctx, "q4_0", small, o)
}

// loadAs is load with a weight type and options of the model.
func loadAs(t *testing.T, ctx context.Context, weights string, model exec.Options, o Options) (*exec.Model, error) {
	f := files(t, weights)
	defer func() { require.NoError(t, f.Close()) }()
	if model.Budget == nil {
		model.Budget = tiering.New(0)
	}
	model.KV = kv.K8V8
	m, err := Load(ctx, f, model, o)
	t.Cleanup(func() {
		if m != nil {
			m.Close()
		}
		require.NoError(t, model.Budget.Check())
	})
	return m, err
}

// slowDevice are the times per token of a matmul on the CPU and on a device that is too slow to get rows.
var slowDevice = [2]time.Duration{time.Microsecond, time.Millisecond}

// TestMeasurementsAreSaved loads a model with a device that is measured. A second load makes no measurements,
// whatever the first have shown.
func TestMeasurementsAreSaved(t *testing.T) {
	measured := 0
	o := Options{Device: slowed(16), Dir: t.TempDir(), Progress: func(done, total int) {
		measured++
		require.LessOrEqual(t, done, total)
	}}
	same := profiles.PassTimes{Prompt: time.Second, Token: time.Second}
	for i, c := range []struct{ alone, known bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		takes(t, same, same) // of a trial, if the measurements give rows to the device
		o.Alone, measured = c.alone, 0
		m, err := load(t, t.Context(), o)
		require.NoError(t, err)
		require.True(t, !c.known || measured == 0)
		require.True(t, i > 0 || measured > 0)
		requireRows(t, m, c.alone)
	}
}

// requireRows checks that the device has all rows of all matmuls, or none.
func requireRows(t *testing.T, m *exec.Model, all bool) {
	t.Helper()
	require.NotEmpty(t, m.SplitStats())
	for _, d := range m.SplitStats() {
		first := d.Rows
		if all {
			first = 0
		}
		require.Equal(t, [2]int{first, first}, [2]int{d.Split.Single, d.Split.Batch}, d.Name)
	}
}

// TestSlowDeviceGetsNoRows loads a model with a device that was measured to be too slow to get rows, except with Alone.
func TestSlowDeviceGetsNoRows(t *testing.T) {
	o := Options{Device: slowed(16), Dir: t.TempDir(), Progress: func(int, int) { t.Error("unexpected measurement") }}
	pretendTimes(t, o.Dir, o.Device, "q4_0", small, slowDevice)
	takes(t) // a device without rows needs no trial
	for _, alone := range []bool{true, false, true} {
		o.Alone = alone
		m, err := load(t, t.Context(), o)
		require.NoError(t, err)
		requireRows(t, m, alone)
	}
}

// TestThreadsBesideDevice checks the CPU's thread count with a device that consists of CPU
// cores: the other cores, or all cores if the split is slower, if the device has no rows,
// or if the options set it.
func TestThreadsBesideDevice(t *testing.T) {
	all, beside := threadpool.DefaultThreads(), devices.HostThreads(group())
	if beside == 0 {
		t.Skip("needs two cores of one kind")
	}
	for name, c := range map[string]struct {
		device  string
		threads int
		split   profiles.PassTimes // alone is 100 ms and 10 ms; zero: the device is too slow for a trial
		want    int
		splits  bool
	}{
		"split is faster":       {group(), 0, profiles.PassTimes{Prompt: 50 * time.Millisecond, Token: 9 * time.Millisecond}, beside, true},
		"all cores are faster":  {group(), 0, profiles.PassTimes{Prompt: 50 * time.Millisecond, Token: 11 * time.Millisecond}, all, false},
		"explicit thread count": {group(), 1, profiles.PassTimes{Prompt: 50 * time.Millisecond, Token: 11 * time.Millisecond}, 1, true},
		"no rows on the device": {slowed(16), 0, profiles.PassTimes{}, all, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Device: c.device, Dir: t.TempDir()}
			model := exec.Options{Threads: c.threads, Chunk: 32}
			inside := model
			if inside.Threads == 0 {
				inside.Threads = devices.HostThreads(o.Device)
			}
			if c.split == (profiles.PassTimes{}) {
				pretendTimes(t, o.Dir, o.Device, "q4_0", inside, slowDevice)
				takes(t)
			} else {
				pretend(t, o.Dir, o.Device, "q4_0", inside)
				takes(t, profiles.PassTimes{Prompt: 100 * time.Millisecond, Token: 10 * time.Millisecond}, c.split)
			}
			for range 2 { // the second load finds the result
				m, err := loadAs(t, t.Context(), "q4_0", model, o)
				require.NoError(t, err)
				require.Equal(t, c.want, m.Threads())
				require.Equal(t, c.splits, slices.ContainsFunc(m.SplitStats(), func(d weights.SplitMatmul) bool { return d.Split.Batch < d.Rows }))
				m.Close()
			}
		})
	}
}

// TestCancelMeasuring checks that cancelling the context ends the measurements.
func TestCancelMeasuring(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := load(t, ctx, Options{Device: group()})
	require.ErrorIs(t, err, context.Canceled)
}

// TestUnavailableDevice checks the errors for devices that are unknown or missing.
func TestUnavailableDevice(t *testing.T) {
	_, err := load(t, t.Context(), Options{Device: "tpu"})
	require.ErrorIs(t, err, devices.ErrUnknown)
	for _, kind := range []string{"gpu", "npu"} {
		if _, missing := devices.All.Resolve(kind); missing != nil {
			_, err := load(t, t.Context(), Options{Device: kind})
			require.EqualError(t, err, missing.Error())
		}
	}
}
