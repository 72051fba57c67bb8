package devices

import (
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// Provider is a driver, or the CPU itself, with its devices.
type Provider struct {
	Name string // of the driver
	Kind hetero.Kind
	// Tag is the build tag that includes the driver; "": always included.
	Tag string
	// Conflict names a reason why the driver cannot share a process with others.
	// Two providers with the same conflict are never loaded together; "": no
	// conflict.
	Conflict string
	// Find loads the driver and lists its devices. The error states why devices are
	// missing and what the user can do. Without an error there is at least one
	// device. Find is nil if the program was built without the driver.
	Find func() ([]Found, error)
}

// Found is a device that can be opened.
type Found struct {
	Name         string // unique name for command lines
	Capabilities hetero.Capabilities
	CanSlow      bool // accepts Options.Slow; drivers' devices do not, even if they are CPUs
	Open         func(o Options) (hetero.Device, error)
}

// Options are the options of opening a device.
type Options struct {
	Budget *tiering.Budget // charged for the device's memory; nil: no accounting
	// Slow slows a device down by this factor, for experiments; 0 = 1.
	Slow int
	// Memory limits the bytes of kernels and buffers, for devices whose driver does
	// not report a limit or that other programs use too; 0 = the driver's limit.
	// The budget limits devices on the CPU instead.
	Memory int64
}

// The drivers that a build may include. Files with their tags set Find.
var (
	openCL      = &Provider{Name: "opencl", Kind: hetero.GPU, Tag: "gpu", Conflict: vendorLibraries()}
	onnxRuntime = &Provider{Name: "onnxruntime", Kind: hetero.NPU, Tag: "npu", Conflict: vendorLibraries()}
)

// All is the registry of this program's providers, in the order of lists.
var All = New(processor(), openCL, onnxRuntime)
