package llmrun

import (
	"io/fs"
	"time"
)

// CheckMemory returns an error that names what the engine still holds.
func (e *Engine) CheckMemory() error { return e.model.Budget().Check() }

// Watch watches signs of pressure that root shows, whenever a time comes.
func (e *Engine) Watch(root fs.FS, ticks <-chan time.Time) { e.watch(root, ticks, func() {}) }
