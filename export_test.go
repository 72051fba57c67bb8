package llmrun

import (
	"io/fs"
	"time"
)

// CheckMemory returns an error that names the memory that the engine still holds.
func (e *Engine) CheckMemory() error { return e.model.Budget().Check() }

// Watch starts a watcher that reads the pressure signs below root at each tick.
func (e *Engine) Watch(root fs.FS, ticks <-chan time.Time) { e.watch(root, ticks, func() {}) }
