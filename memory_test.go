package llmrun_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// packed imports a model to a temporary directory and returns the pack.
func packed(t testing.TB, path string, o llmrun.ImportOptions) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "m.pack")
	_, err := llmrun.Import(context.Background(), path, to, o)
	require.NoError(t, err)
	return to
}

// wide writes a pack with a few layers and some megabytes of random weights: a copy, which the test may change, of one
// that is made once.
func wide(t testing.TB) string {
	t.Helper()
	made, err := widePack()
	require.NoError(t, err)
	pack, err := os.ReadFile(made)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "m.pack")
	require.NoError(t, os.WriteFile(path, pack, 0o600))
	return path
}

// widePack makes the pack that wide copies. TestMain removes it.
var widePack = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "wide-")
	if err != nil {
		return "", err
	}
	madeOnce.Store(&dir)
	shape, ok := synth.FindShape("tiny")
	if !ok {
		return "", errors.New("no shape is called tiny")
	}
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Tied = 6, 512, 1536, 4096, false
	if portable() {
		shape.Dim, shape.FFN = 256, 1024 // a third of the operations
	}
	from, to := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "m.pack")
	if err := synth.Write(context.Background(), vfs.OS(), from, synth.Options{Shape: shape, Quant: "q8_0"}); err != nil {
		return "", err
	}
	_, err = llmrun.Import(context.Background(), from, to, llmrun.ImportOptions{Replace: true})
	return to, err
})

// madeOnce is the directory of widePack, if a test has called it.
var madeOnce atomic.Pointer[string]

// experts writes a pack of a mixture of experts.
func experts(t testing.TB) string {
	t.Helper()
	shape, ok := synth.FindShape("tiny-moe")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab = 4, 512, 512, 4096
	return packedShape(t, shape, "q8_0")
}

// packedShape writes a pack of random weights.
func packedShape(t testing.TB, shape synth.Shape, mix string) string {
	t.Helper()
	return packed(t, writeShape(t, shape, mix), llmrun.ImportOptions{Replace: true})
}

// writeShape writes a GGUF file of random weights.
func writeShape(t testing.TB, shape synth.Shape, mix string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, synth.Write(context.Background(), vfs.OS(), path, synth.Options{Shape: shape, Quant: mix}))
	return path
}

// minimum returns the smallest budget in which a model opens.
func minimum(t testing.TB, path string, o llmrun.Options) int64 {
	t.Helper()
	o.Memory.RAM = 1
	var refused *llmrun.MinimumError
	_, err := llmrun.Open(path, o)
	require.ErrorAs(t, err, &refused)
	return refused.Minimum
}

// held returns the memory that an engine holds.
func held(e *llmrun.Engine) (n int64) {
	for _, bytes := range e.Memory().Held {
		n += bytes
	}
	return n
}

// someIDs returns an arbitrary prompt of n tokens.
func someIDs(e *llmrun.Engine, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i*37+5) % int32(e.Info().Vocab)
	}
	return ids
}

// TestPlanMatchesLoadedBytes checks that a plan counts everything that is loaded: an
// embedding that is not in a pack or is quantized, and the columns of the outlier path.
func TestPlanMatchesLoadedBytes(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Vocab, shape.Tied = 16384, false
	file, pack := writeShape(t, shape, "f16"), packedShape(t, shape, "f16")
	calibration := calibrateDemo(t, llmrun.CalibrateOptions{OutlierFraction: 0.2})
	for _, c := range []struct {
		path    string
		options llmrun.Options
	}{
		{file, llmrun.Options{}},
		{file, llmrun.Options{Quantize: "q8"}},
		{pack, llmrun.Options{Quantize: "q8"}},
		{demoModel, llmrun.Options{Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{Calibration: calibration.Path, Outliers: 1}}}},
	} {
		c.options.Threads, c.options.Context, c.options.Memory.RAM = 2, 64, llmrun.NoLimit
		m := open(t, c.path, c.options).Memory()
		for _, p := range tiering.Purposes() {
			require.LessOrEqual(t, m.Held[p.String()], m.Plan.By[p.String()], "%s of %+v", p, c)
		}
	}
}

// TestSetBudgetWhileGenerating changes the budget at random while another goroutine
// generates. The tokens do not change, and the engine holds no more than the budget when
// SetBudget returns.
func TestSetBudgetWhileGenerating(t *testing.T) {
	ctx := context.Background()
	for name, model := range map[string]struct {
		path, pin string
		kvDir     string
	}{
		"demo":    {path: packed(t, demoModel, llmrun.ImportOptions{})},
		"wide":    {path: wide(t), pin: "anon"},
		"mapped":  {path: wide(t), pin: "file"},
		"experts": {path: experts(t)},
		"cold":    {path: wide(t), kvDir: t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			path := model.path
			options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 48, RAM: llmrun.NoLimit, Pin: model.pin}}
			whole := open(t, path, options)
			options.Cache.KVDir = model.kvDir
			tokens, generations, o := 100, testutil.Effort(1, 4), limit(60)
			if portable() || testing.Short() {
				tokens, generations, o = 60, 1, limit(20)
			}
			o.IgnoreEOS = true
			ids := someIDs(whole, tokens)
			want := complete(t, newSession(t, whole).GenerateIDs(ctx, ids, o)).IDs
			all := held(whole)
			least := minimum(t, path, options)
			require.Greater(t, all, least)

			options.Memory.RAM = least
			e := open(t, path, options)
			stop, done := make(chan struct{}), make(chan error, 1)
			var streamed, resident atomic.Int32
			go func() {
				random := rand.New(rand.NewPCG(1, 2))
				for {
					select {
					case <-stop:
						done <- nil
						return
					default:
					}
					ram := least + random.Int64N(all-least+all/4)
					if random.IntN(8) == 0 {
						ram = llmrun.NoLimit
					}
					if err := e.SetBudget(ram); err != nil {
						done <- err
						return
					}
					if n := held(e); ram > 0 && n > ram {
						done <- fmt.Errorf("the engine holds %d bytes with a budget of %d: %+v", n, ram, e.Memory())
						return
					}
					if now := e.Memory().Plan; now.Resident() {
						resident.Add(1)
					} else {
						streamed.Add(1)
					}
				}
			}()
			for i := 0; i < generations || i < 20 && min(streamed.Load(), resident.Load()) == 0; i++ {
				s := newSession(t, e)
				require.Equal(t, want, complete(t, s.GenerateIDs(ctx, ids, o)).IDs)
				require.NoError(t, s.Close())
			}
			close(stop)
			require.NoError(t, <-done)
			require.Positive(t, streamed.Load())
			require.Positive(t, resident.Load())
			t.Logf("%d budgets with streaming, %d without", streamed.Load(), resident.Load())
		})
	}
}

func TestSetBudgetRefuses(t *testing.T) {
	ctx := context.Background()
	path := wide(t)
	options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 48}}
	least := minimum(t, path, options)
	options.Memory.RAM = least + 4<<20
	e := open(t, path, options)
	s := newSession(t, e)
	o := limit(10)
	o.IgnoreEOS = true
	want := complete(t, s.GenerateIDs(ctx, someIDs(e, 20), o)).IDs
	require.NoError(t, s.Reset())
	require.Error(t, e.SetBudget(1)) // releases the pages of closed sessions nevertheless
	before := e.Memory()
	for _, ram := range []int64{1, least - 1, least / 2} {
		var refused *llmrun.MinimumError
		require.ErrorAs(t, e.SetBudget(ram), &refused)
		require.Equal(t, least, refused.Minimum)
		require.Equal(t, before, e.Memory())
	}
	require.ErrorIs(t, e.SetBudget(-2), llmrun.ErrOptions)
	require.ErrorIs(t, trimError(t, e, -1), llmrun.ErrOptions)
	require.ErrorIs(t, trimError(t, e, llmrun.TrimCritical+1), llmrun.ErrOptions)
	require.Equal(t, before, e.Memory())
	require.Equal(t, want, complete(t, s.GenerateIDs(ctx, someIDs(e, 20), o)).IDs)

	// Sessions keep their pages.
	options.Memory.RAM, options.Memory.KV = llmrun.NoLimit, "f32" // large pages
	long := open(t, path, options)
	one, two := newSession(t, long), newSession(t, long)
	ids := someIDs(long, 511)
	complete(t, one.GenerateIDs(ctx, ids[1:], limit(1)))
	complete(t, two.GenerateIDs(ctx, ids[:510], limit(1))) // other pages
	options.Memory.RAM = 1
	least = minimum(t, path, options)
	var refused *llmrun.MinimumError
	require.ErrorAs(t, long.SetBudget(least), &refused)
	require.Greater(t, refused.Minimum, least)
	require.NoError(t, two.Close())
	require.NoError(t, one.Close())
	require.NoError(t, long.SetBudget(least))

	require.NoError(t, e.Close())
	require.ErrorIs(t, e.SetBudget(llmrun.NoLimit), llmrun.ErrClosed)
	require.ErrorIs(t, trimError(t, e, llmrun.TrimLow), llmrun.ErrClosed)
}

// TestSystemBudgetIncludesHeldMemory checks that a budget of 0 includes what the engine
// holds, which the system does not count as available. A budget without it would shrink the engine each time.
func TestSystemBudgetIncludesHeldMemory(t *testing.T) {
	e := open(t, wide(t), llmrun.Options{Threads: 2, Context: 256, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, Pin: "anon"}})
	h := e.Memory().Held
	frames := held(e) - h[tiering.Code.String()] - h[tiering.Heap.String()]
	require.Greater(t, frames, int64(8<<20))
	require.Zero(t, h[tiering.Mapped.String()])
	for _, available := range []int64{1 << 30, 64 << 20, 1 << 30} {
		t.Cleanup(llmrun.SetAvailableMemory(available))
		require.NoError(t, e.SetBudget(0))
		require.Equal(t, h, e.Memory().Held)
		require.Equal(t, available+frames, e.Memory().Budget)
	}
}

// TestSetBudgetOfSplitModel streams the rows that the CPU keeps of a split model in a smaller budget,
// and refuses one below the minimum. The answer stays the same.
func TestSetBudgetOfSplitModel(t *testing.T) {
	path := writeShape(t, layered(t, "tiny"), "q8_0")
	e := open(t, path, llmrun.Options{Threads: 1, Context: 64, Memory: llmrun.MemoryOptions{Chunk: 16, RAM: llmrun.NoLimit}, Device: llmrun.DeviceOptions{Name: "cpu+cpu/2"}})
	answer := func() []int32 {
		o := limit(4)
		o.IgnoreEOS = true
		s := newSession(t, e)
		defer func() { require.NoError(t, s.Close()) }()
		return complete(t, s.GenerateIDs(t.Context(), someIDs(e, 20), o)).IDs
	}
	want, before := answer(), e.Memory()
	err := e.SetBudget(1)
	var refused *llmrun.MinimumError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, before.Plan, e.Memory().Plan)
	require.NoError(t, e.SetBudget(refused.Minimum))
	plan := e.Memory().Plan
	require.False(t, plan.Resident())
	require.LessOrEqual(t, held(e), refused.Minimum)
	require.Equal(t, want, answer())
	require.NoError(t, e.SetBudget(llmrun.NoLimit))
	require.Equal(t, before.Plan, e.Memory().Plan)
	trim(t, e, llmrun.TrimCritical)
	require.Equal(t, want, answer())
	require.NoError(t, e.Close())
	require.ErrorIs(t, e.SetBudget(llmrun.NoLimit), llmrun.ErrClosed)
}

// TestSetBudgetAfterPackIsReplaced checks that the engine refuses to stream from a pack whose
// file was moved or replaced.
func TestSetBudgetAfterPackIsReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be renamed there")
	}
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	path, other := wide(t), packedShape(t, shape, "q8_0")
	options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 48}}
	least := minimum(t, path, options)
	options.Memory.RAM = llmrun.NoLimit
	e := open(t, path, options)
	moved := path + ".moved"
	refused := func() {
		t.Helper()
		before := e.Memory()
		for _, ram := range []int64{least, held(e)} {
			err := e.SetBudget(ram)
			require.ErrorIs(t, err, llmrun.ErrReplaced)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, "open the model again")
			require.Equal(t, before, e.Memory())
		}
	}
	require.NoError(t, os.Rename(path, moved))
	refused()
	require.NoError(t, os.Rename(other, path))
	refused()
	s := newSession(t, e) // there is room for more
	complete(t, s.GenerateIDs(t.Context(), someIDs(e, 500), limit(1)))
	require.NoError(t, s.Close())
	require.NoError(t, os.Rename(moved, path))
	require.NoError(t, e.SetBudget(least))
	require.LessOrEqual(t, held(e), least)
}
