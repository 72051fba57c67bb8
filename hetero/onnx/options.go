package onnx

import (
	"errors"

	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/tiering"
)

// Environment variables that say what [Options] leave open.
const (
	LibraryVariable = "LLMRUN_ONNXRUNTIME"         // path of the library
	PluginsVariable = "LLMRUN_ONNXRUNTIME_PLUGINS" // paths of plugins, separated as in PATH
)

// Options say which library and provider a device uses, and within what limits.
// The zero value is the CPU provider of the library under its usual name.
type Options struct {
	// Library is its path; without it [LibraryVariable] says, or its usual names
	// are tried. A process loads one.
	Library string
	// Plugins are the paths of provider libraries to load beside it; nil for those
	// that [PluginsVariable] lists.
	Plugins []string
	// Provider is who computes, as the library names it with or without
	// "ExecutionProvider": QNN, OpenVINO, VitisAI, CoreML, CPU. Settings are the
	// provider's own.
	Provider string
	Settings map[string]string
	// Threads is how many the library itself computes with, 0 for one. They are
	// those of a process.
	Threads   int
	Precision graph.Precision
	// InPlace makes the CPU provider read weights where they are. Otherwise it copies
	// them into the order of its own kernels, which takes memory for each length and
	// time to prepare, and makes products faster.
	InPlace bool
	// Memory limits what kernels and buffers take together, for a processor whose
	// addresses are short; 0 is no limit.
	Memory int64
	// Budget is charged with the packed weights; nil for a budget without limit.
	Budget *tiering.Budget
	// CacheDir is where prepared graphs are kept, "" for nowhere.
	CacheDir string
}

// ErrMissing is returned where no library is found, or none is built in: then
// there is no such device, which is no mistake.
var ErrMissing = errors.New("no ONNX Runtime library")

// Provider is what can compute, as the library or one of its plugins lists it.
type Provider struct {
	Name string `json:"name"`
	// Hardware is "CPU", "GPU" or "NPU", and Vendor who made it, where the library
	// has found the hardware that the provider would use.
	Hardware string `json:"hardware,omitempty"`
	Vendor   string `json:"vendor,omitempty"`
	// Refused is why the library does not compute with it here, "" if it may.
	Refused string `json:"refused,omitempty"`
}

// Report is what was found of the library on this machine.
type Report struct {
	Path      string     `json:"path"`
	Version   string     `json:"version"`
	Providers []Provider `json:"providers"`
}

// Stats count what a device has prepared.
type Stats struct {
	Kernels  int   `json:"kernels"`  // that are open
	Graphs   int   `json:"graphs"`   // sessions that serve them
	Built    int   `json:"built"`    // graphs that were ever prepared
	Cached   int   `json:"cached"`   // of those, read back from disk
	Unsaved  int   `json:"unkept"`   // graphs that could not be written to disk
	Damaged  int   `json:"damaged"`  // cached graphs that were not as they were written
	Weights  int64 `json:"weights"`  // bytes of packed weights, each once
	Held     int64 `json:"held"`     // bytes that count against the limit
	Gathered int64 `json:"gathered"` // bytes copied because rows of a view did not follow each other
}
