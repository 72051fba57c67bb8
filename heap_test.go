package llmrun_test

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/tiering"
)

// statedHeap is the heap that plans of most tests reserve for the program. The live heap, which
// they would reserve otherwise, depends on the tests that ran before.
const statedHeap = 8 << 20

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		llmrun.SetProgramHeap(statedHeap)
		llmrun.SetMemoryLimit(func(int64) int64 { return math.MaxInt64 }) // see limitGo
	}
	code := m.Run()
	if dir := madeOnce.Load(); dir != nil {
		_ = os.RemoveAll(*dir) // a temporary directory
	}
	os.Exit(code)
}

// stateHeap states another heap until the end of the test; 0 makes engines measure it.
func stateHeap(t testing.TB, bytes int64) {
	llmrun.SetProgramHeap(bytes)
	t.Cleanup(func() { llmrun.SetProgramHeap(statedHeap) })
}

// liveHeap makes engines find a heap of the program, instead of measuring it, until the end of the test.
func liveHeap(t testing.TB, bytes int64) {
	t.Cleanup(llmrun.SetLiveHeap(bytes))
}

// limitGo makes engines limit Go's memory until the end of the test. In other tests they do not: what tests before it
// have left behind exceeds the limit of one engine, so that the collector would run all the time.
func limitGo(t testing.TB) {
	t.Cleanup(llmrun.SetMemoryLimit(debug.SetMemoryLimit))
}

// goLimit returns Go's memory limit.
func goLimit() int64 { return debug.SetMemoryLimit(-1) }

// TestEnginesShareGoMemoryLimit checks that the program's limit is restored in whichever
// order the engines are closed.
func TestEnginesShareGoMemoryLimit(t *testing.T) {
	limitGo(t)
	require.Equal(t, int64(math.MaxInt64), goLimit())
	opts := llmrun.Options{Context: 256, Memory: llmrun.MemoryOptions{RAM: 400 << 20}}
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		first := open(t, demoModel, opts)
		alone := goLimit()
		engines := [2]*llmrun.Engine{first, open(t, demoModel, opts)}
		require.Greater(t, goLimit(), alone, "each has its own vocabulary")
		require.NoError(t, engines[order[0]].Close())
		require.Less(t, goLimit(), alone*2)
		require.NoError(t, engines[order[1]].Close())
		require.Equal(t, int64(math.MaxInt64), goLimit(), order)
	}
}

// TestProgramMemoryLimitIsPreserved checks that closing an engine keeps a limit that the
// program set in the meantime.
func TestProgramMemoryLimitIsPreserved(t *testing.T) {
	limitGo(t)
	e := open(t, demoModel, llmrun.Options{Context: 256, Memory: llmrun.MemoryOptions{RAM: 400 << 20}})
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	debug.SetMemoryLimit(1 << 30)
	require.NoError(t, e.SetBudget(300<<20))
	require.Less(t, goLimit(), int64(1<<30))
	require.NoError(t, e.Close())
	require.Equal(t, int64(1<<30), goLimit())
}

// TestGoLimitIsLeft checks that engines with LeaveGoLimit do not touch the program's limit, also beside others, and
// reserve the same heap.
func TestGoLimitIsLeft(t *testing.T) {
	limitGo(t)
	opts := llmrun.Options{Context: 256, Memory: llmrun.MemoryOptions{RAM: 400 << 20}}
	limited := open(t, demoModel, opts)
	alone, plan := goLimit(), limited.Memory().Plan
	require.Less(t, alone, int64(400<<20))
	opts.Memory.LeaveGoLimit = true
	e := open(t, demoModel, opts)
	require.Equal(t, plan.By, e.Memory().Plan.By)
	require.Equal(t, int64(math.MaxInt64), goLimit())
	require.NoError(t, e.SetBudget(300<<20))
	require.Equal(t, int64(math.MaxInt64), goLimit())
	require.NoError(t, e.Close())
	require.Equal(t, alone, goLimit())
}

// TestBudgetCountsProgramHeap checks that a budget reserves room for the program's heap.
// Without it, the garbage collector would run continuously.
func TestBudgetCountsProgramHeap(t *testing.T) {
	limitGo(t)
	stateHeap(t, 0)
	opts := llmrun.Options{Context: 256, Memory: llmrun.MemoryOptions{RAM: 400 << 20}}
	heap := func(live int64) (plan, limit int64) {
		liveHeap(t, live)
		e := open(t, demoModel, opts)
		defer e.Close()
		return e.Memory().Plan.By[tiering.Heap.String()], goLimit()
	}
	plan, limit := heap(0)
	require.Equal(t, plan, limit)
	withBallast, limit := heap(64 << 20)
	require.Equal(t, withBallast, limit)
	require.Equal(t, plan+96<<20, withBallast)

	opts.Memory.RAM = 100 << 20
	_, err := llmrun.Open(demoModel, opts)
	var refused *llmrun.MinimumError
	require.ErrorAs(t, err, &refused)

	// An engine whose budget is set later reserves it as well.
	opts.Memory.RAM = llmrun.NoLimit
	e := open(t, demoModel, opts)
	liveHeap(t, plan) // the engine's own heap
	require.NoError(t, e.SetBudget(400<<20))
	require.Equal(t, plan, goLimit())
	liveHeap(t, plan+64<<20)
	require.NoError(t, e.SetBudget(400<<20))
	require.Equal(t, plan+96<<20, goLimit())
}

// TestLiveHeapCountsWhatIsInUse checks that memory counts as soon as it is allocated.
func TestLiveHeapCountsWhatIsInUse(t *testing.T) {
	ballast := make([]byte, 64<<20)
	require.GreaterOrEqual(t, llmrun.LiveHeap(), int64(len(ballast)))
	runtime.KeepAlive(ballast)
}

// TestProgramStatesItsHeap checks that engines reserve what the program states, whatever is live.
func TestProgramStatesItsHeap(t *testing.T) {
	opts := llmrun.Options{Context: 256, Memory: llmrun.MemoryOptions{RAM: 400 << 20}}
	heap := func() int64 {
		e := open(t, demoModel, opts)
		defer e.Close()
		return e.Memory().Plan.By[tiering.Heap.String()]
	}
	stateHeap(t, 1)
	least := heap()
	ballast := make([]byte, 64<<20)
	llmrun.SetProgramHeap(1 + 96<<20)
	require.Equal(t, least+96<<20, heap())
	llmrun.SetProgramHeap(1)
	require.Equal(t, least, heap())
	llmrun.SetProgramHeap(0)
	require.Greater(t, heap(), least+64<<20)
	runtime.KeepAlive(ballast)
}

// TestRefusedProgramHeapChangesNothing sets a budget for an engine without one, whose ledger then refuses the
// heap of the program.
func TestRefusedProgramHeapChangesNothing(t *testing.T) {
	path := wide(t)
	o := llmrun.Options{Threads: 1, Context: 512, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}}
	e := open(t, path, o)
	o.Memory.RAM = 0
	least := minimum(t, path, o)
	before := e.Memory()
	tiering.SetFaults(func(r tiering.Request) bool { return r.Purpose == tiering.Heap })
	err := e.SetBudget(least + 4<<20)
	tiering.SetFaults(nil)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	after := e.Memory()
	require.Equal(t, before.Plan, after.Plan)
	require.Equal(t, before.Budget, after.Budget)
	require.NoError(t, e.SetBudget(least))
	require.LessOrEqual(t, held(e), least)
}

// TestSetBudgetGivesTheProgramsHeapBack lets the heap of a program grow and shrink again. Budgets that were enough before
// are enough afterwards, and one that is refused meanwhile changes nothing.
func TestSetBudgetGivesTheProgramsHeapBack(t *testing.T) {
	limitGo(t)
	stateHeap(t, 0)
	liveHeap(t, 0)
	opts := llmrun.Options{Threads: 1, Context: 256, Memory: llmrun.MemoryOptions{RAM: 64 << 20}}
	path := wide(t)
	e := open(t, path, opts)
	before, limit := e.Memory(), goLimit()
	least := minimum(t, path, opts)
	plan := before.Plan.By[tiering.Heap.String()]
	for range 2 {
		liveHeap(t, plan+64<<20)
		var refused *llmrun.MinimumError
		require.ErrorAs(t, e.SetBudget(64<<20), &refused)
		require.Equal(t, before.Plan.By, e.Memory().Plan.By)
		require.NoError(t, e.SetBudget(refused.Minimum))
		require.Equal(t, plan+96<<20, e.Memory().Held[tiering.Heap.String()])
		liveHeap(t, plan+60<<20) // the engine may use a little less of the same heap
		require.NoError(t, e.SetBudget(refused.Minimum))
		require.Equal(t, plan+96<<20, e.Memory().Held[tiering.Heap.String()])

		liveHeap(t, plan)
		require.ErrorAs(t, e.SetBudget(1), &refused)
		require.Equal(t, plan+96<<20, e.Memory().Held[tiering.Heap.String()], "a refusal changes nothing")
		require.NoError(t, e.SetBudget(least))
		require.LessOrEqual(t, held(e), least)
		require.NoError(t, e.SetBudget(64<<20))
		require.Equal(t, before.Plan.By, e.Memory().Plan.By)
		require.Equal(t, plan, e.Memory().Held[tiering.Heap.String()])
		require.Equal(t, limit, goLimit())
	}
}
