package llmrun

import (
	"io/fs"
	"time"

	"github.com/llmrun/llmrun/tiering"
)

// LiveHeap measures how much of Go's heap is live.
func LiveHeap() int64 { return liveHeap() }

// SetLiveHeap makes engines find this heap of the program instead of measuring it.
func SetLiveHeap(bytes int64) { readHeap = func() int64 { return bytes } }

// SetAvailableMemory makes engines find this much available memory, until restore is called.
func SetAvailableMemory(bytes int64) (restore func()) {
	readAvailable = func() int64 { return bytes }
	return func() { readAvailable = tiering.Available }
}

// CheckMemory returns an error that names the memory that the engine still holds.
func (e *Engine) CheckMemory() error { return e.model.Budget().Check() }

// Watch starts a watcher that reads the pressure signs below root at each tick.
func (e *Engine) Watch(root fs.FS, ticks <-chan time.Time) { e.watch(root, ticks, func() {}) }
