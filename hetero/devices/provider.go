package devices

import (
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// Provider is a driver, or the processor itself, and the devices that it offers.
type Provider struct {
	Name string // of the driver
	Kind hetero.Kind
	// Tag is the build tag that puts the driver into the program; "" = always there.
	Tag string
	// Conflict names what the driver cannot share a process for; two providers with the
	// same clash are never loaded together. "" = it gets along with all.
	Conflict string
	// Find loads the driver and lists its devices. The error says why there are none,
	// and what would help, or why some are left out; without one there is at least
	// one. nil: the program was built without it.
	Find func() ([]Found, error)
}

// Found is a device that can be opened.
type Found struct {
	Name         string // on command lines, different for each device of the machine
	Capabilities hetero.Capabilities
	CanSlow      bool // it obeys Options.Slow; a driver's device does not, even where it is a processor
	Open         func(o Options) (hetero.Device, error)
}

// Options say how a device is opened.
type Options struct {
	Budget *tiering.Budget // charged with what the device holds; nil = nobody counts
	// Slow makes a device that can be made slower so many times slower, for
	// experiments; 0 = 1.
	Slow int
	// Memory is how many bytes kernels and buffers may take, of a device whose driver
	// does not say how few it addresses, or that others need as well; 0 = what the
	// driver says. The processor's own memory is limited by the budget instead.
	Memory int64
}

// The drivers that a build may have. Files with their tags set Find.
var (
	openCL      = &Provider{Name: "opencl", Kind: hetero.GPU, Tag: "gpu", Conflict: vendorLibraries()}
	onnxRuntime = &Provider{Name: "onnxruntime", Kind: hetero.NPU, Tag: "npu", Conflict: vendorLibraries()}
)

// All are the providers of this program, in the order in which lists show them.
var All = New(processor(), openCL, onnxRuntime)
