package llmrun

import (
	"io/fs"
	"testing"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// LiveHeap measures how much of Go's heap is live.
func LiveHeap() int64 { return liveHeap() }

// SetLiveHeap makes engines find this heap of the program instead of measuring it, until restore is called.
func SetLiveHeap(bytes int64) (restore func()) {
	readHeap = func() int64 { return bytes }
	return func() { readHeap = liveHeap }
}

// SetMemoryLimit makes engines set Go's memory limit with this function, until restore is called.
func SetMemoryLimit(set func(int64) int64) (restore func()) {
	before := setMemoryLimit
	setMemoryLimit = set
	return func() { setMemoryLimit = before }
}

// SetAvailableMemory makes engines find this much available memory, until restore is called.
func SetAvailableMemory(bytes int64) (restore func()) {
	readAvailable = func() int64 { return bytes }
	return func() { readAvailable = tiering.Available }
}

// CheckMemory returns an error that names the memory that the engine still holds.
func (e *Engine) CheckMemory() error { return e.model.Budget().Check() }

// RespondToProcess compares the bytes that resident returns with the budget.
func (e *Engine) RespondToProcess(resident func() int64, notify func(string)) {
	e.respondToProcess(resident, notify)
}

// Watch starts a watcher that reads the pressure signs below root at each tick.
func (e *Engine) Watch(root fs.FS, ticks <-chan time.Time) { e.watch(root, ticks, func() {}) }

// GrantedFor returns the memory that one step of the conversion of a prompt of so many bytes gets
// without asking for more.
func GrantedFor(bytes int) int64 { return grantedOf(PromptMemory(int64(bytes))) }

// AllBranches makes passes with guesses verify other guesses too, until the end of the test, whether they pay or not.
func AllBranches(t testing.TB) {
	allBranches = true
	t.Cleanup(func() { allBranches = false })
}

// KeptBranches returns in how many passes a branch was right where the first guesses were wrong.
func KeptBranches(e *Engine) int { return int(e.branchesKept.Load()) }

// ReserveCode makes plans reserve so much for the program's code, of which the system decides how much is resident.
func ReserveCode(bytes int64) { codeBytes = func() int64 { return bytes } }

// HarmonyTemplate writes conversations as gpt-oss reads them.
const HarmonyTemplate = harmonyTemplate
