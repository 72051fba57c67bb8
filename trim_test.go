package llmrun_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/enginemodel"
	"github.com/llmrun/llmrun/tiering"
)

// wideEngine is an engine of the wide model with one session.
type wideEngine struct {
	path    string
	options llmrun.Options
	engine  *llmrun.Engine
	session *llmrun.Session
	minimum int64 // the smallest budget in which the model opens
}

// openWide opens the wide model with a budget of ram bytes.
func openWide(t *testing.T, ram int64) *wideEngine {
	t.Helper()
	w := &wideEngine{path: wide(t), options: llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 48}}}
	w.minimum = minimum(t, w.path, w.options)
	w.options.Memory.RAM = ram
	w.engine = open(t, w.path, w.options)
	w.session = newSession(t, w.engine)
	return w
}

// generate resets the session and returns the answer to a prompt of 100 tokens.
func (w *wideEngine) generate(t *testing.T) []int32 {
	t.Helper()
	require.NoError(t, w.session.Reset())
	o := limit(12)
	o.IgnoreEOS = true
	return complete(t, w.session.GenerateIDs(context.Background(), someIDs(w.engine, 100), o)).IDs
}

func TestTrim(t *testing.T) {
	w := openWide(t, llmrun.NoLimit)
	whole, least := w.engine, w.minimum
	want := w.generate(t)
	require.NoError(t, w.session.Reset())
	full := held(whole)
	for _, level := range []llmrun.TrimLevel{llmrun.TrimModerate, llmrun.TrimLow, llmrun.TrimCritical, llmrun.TrimLow, llmrun.TrimNone} {
		for range 2 {
			trim(t, whole, level)
			switch now := held(whole); level {
			case llmrun.TrimModerate:
				require.Less(t, now, full, "pages of no session are released")
			case llmrun.TrimLow:
				require.LessOrEqual(t, now, max(full*3/4, least))
				require.Less(t, now, full)
			case llmrun.TrimCritical:
				require.LessOrEqual(t, now, least)
			}
			require.Equal(t, want, w.generate(t))
			require.NoError(t, w.session.Reset())
		}
	}
	require.Equal(t, full, held(whole), "everything is restored")

	// TrimCritical shrinks the ring to its minimum.
	options := w.options
	options.Memory.RAM = least + (full-least)/2
	part := open(t, w.path, options)
	ring := part.Memory().Held["weight ring"]
	require.Positive(t, ring)
	trim(t, part, llmrun.TrimModerate)
	require.LessOrEqual(t, part.Memory().Held["weight ring"], ring)
	trim(t, part, llmrun.TrimCritical)
	require.LessOrEqual(t, held(part), least)
	require.NoError(t, part.SetBudget(options.Memory.RAM))
	require.Equal(t, ring, part.Memory().Held["weight ring"])
}

// TestTrimLevels checks the names of the levels, and which of them Android's are.
func TestTrimLevels(t *testing.T) {
	t.Parallel()
	var names []string
	for level := llmrun.TrimNone - 1; level <= llmrun.TrimCritical+1; level++ {
		names = append(names, level.String())
	}
	require.Equal(t, []string{"TrimLevel(-1)", "none", "moderate", "low", "critical", "TrimLevel(4)"}, names)
	for android, want := range map[int]llmrun.TrimLevel{
		0: llmrun.TrimNone, 5: llmrun.TrimModerate, 10: llmrun.TrimLow, 15: llmrun.TrimCritical, // in use
		20: llmrun.TrimModerate, 40: llmrun.TrimLow, 60: llmrun.TrimCritical, 80: llmrun.TrimCritical, // hidden
		12: llmrun.TrimLow, 50: llmrun.TrimLow, 1000: llmrun.TrimCritical, // not known
	} {
		require.Equal(t, want, llmrun.AndroidTrimLevel(android), android)
	}
}

// TestTrimReportsWhatItFreed compares what Trim returns with what the engine holds.
func TestTrimReportsWhatItFreed(t *testing.T) {
	t.Parallel()
	w := openWide(t, llmrun.NoLimit)
	w.generate(t)
	for _, level := range []llmrun.TrimLevel{llmrun.TrimLow, llmrun.TrimCritical, llmrun.TrimCritical, llmrun.TrimNone} {
		before := held(w.engine)
		freed, err := w.engine.Trim(t.Context(), level)
		require.NoError(t, err)
		require.Equal(t, before-held(w.engine), freed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := w.engine.Memory()
	freed, err := w.engine.Trim(ctx, llmrun.TrimCritical)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, freed)
	require.Equal(t, before.Plan, w.engine.Memory().Plan)
}

// TestWatchPressure feeds an engine with signs of pressure and a clock.
func TestWatchPressure(t *testing.T) {
	w := openWide(t, math.MaxInt32)
	e := w.engine
	want := w.generate(t)
	trim(t, e, llmrun.TrimNone) // memory of pages grows in steps, of which this keeps what is in use
	full := held(e)

	root := &changingFS{files: fstest.MapFS{}}
	now := time.Unix(0, 0)
	ticks := make(chan time.Time)
	stalled := 0
	tick := func(after time.Duration, pressure bool) {
		if now = now.Add(after); pressure {
			stalled += 1e6
		}
		root.set("proc/pressure/memory", fmt.Sprintf("some avg10=0.00 total=%d\n", stalled))
		ticks <- now
		// The watcher has received the tick. Memory waits until the watcher has responded, if
		// it has started to; a second tick without news waits for that.
		ticks <- now.Add(time.Nanosecond)
	}
	e.Watch(root, ticks)
	tick(time.Second, false)
	require.Equal(t, full, held(e))
	last := full
	for range 30 {
		tick(time.Second, true)
		require.LessOrEqual(t, held(e), last)
		last = held(e)
	}
	require.LessOrEqual(t, last, w.minimum, "only the minimum is left")
	require.Equal(t, want, w.generate(t))
	for range 30 {
		tick(time.Minute, false)
	}
	require.Equal(t, want, w.generate(t))
	require.Equal(t, full, held(e), "everything is restored")
	require.EqualValues(t, math.MaxInt32, e.Memory().Budget, "at most the user's budget")
	require.NoError(t, e.Close())
	select {
	case ticks <- now:
		t.Fatal("the watcher still runs")
	default:
	}
}

// changingFS is a file system whose files change concurrently with reads.
type changingFS struct {
	mu    sync.Mutex
	files fstest.MapFS
}

func (c *changingFS) set(name, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[name] = &fstest.MapFile{Data: []byte(text)}
}

func (c *changingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.Open(name)
}

// TestARefusedBudgetChangesNothing sets budgets that are too small for the pages of several sessions that are not
// full: none of the others moves to flash. In the smallest budget that is not refused, all sessions go on, and
// the memory of their pages shrinks to few more than those in memory.
func TestARefusedBudgetChangesNothing(t *testing.T) {
	ctx, path := t.Context(), wide(t)
	options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 48, KV: "f32"}, Cache: llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true}}
	least := minimum(t, path, options)
	options.Memory.RAM = llmrun.NoLimit
	e := open(t, path, options)
	o := limit(2)
	o.IgnoreEOS = true
	var sessions []*llmrun.Session
	var want [][]int32
	for i := range 12 {
		s := newSession(t, e)
		sessions, want = append(sessions, s), append(want, complete(t, s.GenerateIDs(ctx, someIDs(e, 300)[i:], o)).IDs)
	}
	before := e.KVUse()
	require.Zero(t, before.ColdPages)
	err := e.SetBudget(least)
	var refused *llmrun.MinimumError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, before, e.KVUse(), "after a refusal")
	for range 8 { // what moves to flash may make the next minimum smaller or larger by a little
		if err = e.SetBudget(refused.Minimum); !errors.As(err, &refused) {
			break
		}
	}
	require.NoError(t, err)
	use := e.KVUse()
	require.Positive(t, use.ColdPages)
	require.Less(t, e.Memory().Held["kv hot"], int64(use.HotPages+3)*int64(use.PageBytes))
	for i, s := range sessions {
		require.NoError(t, s.Reset())
		require.Equal(t, want[i], complete(t, s.GenerateIDs(ctx, someIDs(e, 300)[i:], o)).IDs)
	}
}

// TestABudgetTakesTheMemoryOfGuesses sets the smallest budget in which the model opens while a session holds memory for
// guesses: it is not refused, and the guesses come back with the memory.
func TestABudgetTakesTheMemoryOfGuesses(t *testing.T) {
	w := openWide(t, llmrun.NoLimit)
	e := w.engine
	want := w.generate(t)
	guesses := e.Memory().Held["drafts"]
	require.Positive(t, guesses)
	var refused *llmrun.MinimumError
	require.ErrorAs(t, e.SetBudget(w.minimum-1), &refused)
	require.Equal(t, w.minimum, refused.Minimum)
	require.Equal(t, guesses, e.Memory().Held["drafts"], "a refusal changes nothing")
	require.NoError(t, e.SetBudget(w.minimum))
	require.Zero(t, e.Memory().Held["drafts"])
	require.Equal(t, want, w.generate(t))
	require.Zero(t, e.Memory().Held["drafts"])
	require.NoError(t, e.SetBudget(llmrun.NoLimit))
	require.Equal(t, want, w.generate(t))
	require.Equal(t, guesses, e.Memory().Held["drafts"])
}

// TestTrimCountsWhatNoPlanContains trims while the ledger holds memory that no plan contains, such as summaries of the keys
// of several sessions. The engine releases what it can beside it, as often as it is asked, and takes it back.
func TestTrimCountsWhatNoPlanContains(t *testing.T) {
	const beside = 4 << 20
	ram := openWide(t, llmrun.NoLimit).minimum + 40<<20 // the weights, and more
	w := openWide(t, ram)
	e := w.engine
	full := held(e)
	lease, err := enginemodel.Of(e).Budget().Reserve(tiering.KVSummaries, beside)
	require.NoError(t, err)
	for range 2 {
		trim(t, e, llmrun.TrimCritical)
		require.LessOrEqual(t, held(e), w.minimum+beside)
		trim(t, e, llmrun.TrimLow)
	}
	trim(t, e, llmrun.TrimNone)
	require.NoError(t, e.SetBudget(w.minimum+beside+1<<20))
	lease.Release()
	require.NoError(t, e.SetBudget(ram))
	require.Equal(t, full, held(e))
}

// TestAFailedBudgetReleasesWhatItGot raises the budget while a request for memory fails, each in turn. Either the budget
// holds, with fewer weights in memory, or the engine goes on in the one before and holds no more than that.
func TestAFailedBudgetReleasesWhatItGot(t *testing.T) {
	w := openWide(t, llmrun.NoLimit)
	e, small := w.engine, w.minimum+1<<20
	want := w.generate(t)
	large := held(e)
	failed := 0
	for nth := int64(1); ; nth++ {
		require.NoError(t, e.SetBudget(small))
		var requests atomic.Int64
		before := tiering.SetFaults(func(r tiering.Request) bool { return r.Map && requests.Add(1) == nth })
		err := e.SetBudget(large)
		tiering.SetFaults(before)
		if requests.Load() < nth {
			require.NoError(t, err)
			require.Positive(t, failed)
			return
		}
		if err != nil {
			failed++
			require.ErrorIs(t, err, syscall.ENOMEM)
			require.Equal(t, small, e.Memory().Budget)
			require.LessOrEqual(t, held(e), small, "request %d", nth)
			require.Equal(t, want, w.generate(t), "request %d", nth)
		}
	}
}
