package onnx

import (
	"errors"

	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/tiering"
)

// Environment variables for fields that [Options] leave empty.
const (
	LibraryVariable = "LLMRUN_ONNXRUNTIME"         // path of the library
	PluginsVariable = "LLMRUN_ONNXRUNTIME_PLUGINS" // paths of plugins, separated as in PATH
)

// Options select the library and provider of a device, and its limits. The zero
// value is the CPU provider of the library under its usual name.
type Options struct {
	// Library is the library's path; if empty, [LibraryVariable] or the usual names
	// apply. A process loads one library.
	Library string
	// Plugins are paths of provider libraries; nil for those that [PluginsVariable]
	// lists.
	Plugins []string
	// Provider is the execution provider, with or without the suffix
	// "ExecutionProvider": QNN, OpenVINO, VitisAI, CoreML, CPU. Open passes
	// Settings to it.
	Provider string
	Settings map[string]string
	// Threads is the number of the library's own threads, 0 for one. It applies to
	// the whole process.
	Threads   int
	Precision graph.Precision
	// InPlace makes the CPU provider read weights in place. Otherwise it copies
	// them into its own layout, which costs memory for each length and time in
	// Prepare, but makes matmuls faster.
	InPlace bool
	// Memory limits the total bytes of kernels and buffers, for devices that
	// address little memory; 0: no limit.
	Memory int64
	// Budget is charged for the packed weights; nil: no accounting.
	Budget *tiering.Budget
	// CacheDir is the directory for prepared graphs; "": no cache.
	CacheDir string
}

// ErrMissing reports that no library is installed or the program was built without the device.
// Callers treat it as "no device".
var ErrMissing = errors.New("no ONNX Runtime library")

// Provider is an execution provider of the library or a plugin.
type Provider struct {
	Name string `json:"name"`
	// Hardware is "CPU", "GPU" or "NPU" and Vendor its manufacturer, if the library
	// has detected the provider's hardware.
	Hardware string `json:"hardware,omitempty"`
	Vendor   string `json:"vendor,omitempty"`
	// Refused is the reason why the provider is unusable on this machine; "" if it may
	// be usable.
	Refused string `json:"refused,omitempty"`
}

// Report describes the library on this machine.
type Report struct {
	Path      string     `json:"path"`
	Version   string     `json:"version"`
	Providers []Provider `json:"providers"`
}

// Stats count the graphs and memory of a device.
type Stats struct {
	Kernels  int   `json:"kernels"`  // open kernels
	Graphs   int   `json:"graphs"`   // their sessions
	Built    int   `json:"built"`    // graphs prepared so far
	Cached   int   `json:"cached"`   // of those, loaded from disk
	Unsaved  int   `json:"unkept"`   // graphs that could not be written to disk
	Damaged  int   `json:"damaged"`  // cached graphs that failed verification
	Weights  int64 `json:"weights"`  // bytes of packed weights, shared copies once
	Held     int64 `json:"held"`     // bytes that count against the limit
	Gathered int64 `json:"gathered"` // bytes copied because rows of a view were strided
}
