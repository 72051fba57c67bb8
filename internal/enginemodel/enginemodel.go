// Package enginemodel gives benchmarks of this module the model inside an engine of the
// library, which the library does not export. Benchmarks time single passes, and sessions
// do not show where one ends.
package enginemodel

import "github.com/llmrun/llmrun/exec"

// Of returns the model of an engine, a *llmrun.Engine. The library sets it, because this
// package cannot import the library.
var Of func(engine any) *exec.Model
