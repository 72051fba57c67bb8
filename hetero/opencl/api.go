package opencl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
)

// Errors of loading a driver and selecting a device.
var (
	// ErrNotBuilt: the program was built without driver loading.
	ErrNotBuilt = errors.New("this build cannot load drivers: build with -tags gpu")
	// ErrNoDriver: the machine has no OpenCL library.
	ErrNoDriver = errors.New("no OpenCL driver was found")
	// ErrNoDevice: there are drivers, but not the requested device.
	ErrNoDevice = errors.New("no such OpenCL device")
)

// LibraryVariable is the environment variable that names the library to load
// instead of those in the usual places.
const LibraryVariable = "LLMRUN_OPENCL"

// libraries returns the library names to try, the usual one first. Phones have the
// library only in the directories of the vendor.
func libraries() []string {
	if name := os.Getenv(LibraryVariable); name != "" {
		return []string{name}
	}
	switch runtime.GOOS {
	case "windows":
		return []string{"OpenCL.dll"}
	case "darwin":
		return []string{"/System/Library/Frameworks/OpenCL.framework/OpenCL"}
	}
	names := []string{"libOpenCL.so.1", "libOpenCL.so"}
	for _, name := range []string{"libOpenCL.so", "libGLES_mali.so", "libOpenCL-pixel.so", "libPVROCL.so"} {
		for _, dir := range []string{"/vendor/lib64/", "/system/vendor/lib64/", "/vendor/lib64/egl/", "/system/lib64/"} {
			names = append(names, dir+name)
		}
	}
	return names
}

// entry is one function of the driver.
type entry int

// The functions that the package calls: of OpenCL 1.2 and, from laterEntries on, of 3.0.
const (
	clGetPlatformIDs entry = iota
	clGetPlatformInfo
	clGetDeviceIDs
	clGetDeviceInfo
	clCreateContext
	clReleaseContext
	clCreateCommandQueue
	clReleaseCommandQueue
	clCreateProgramWithSource
	clBuildProgram
	clGetProgramInfo
	clGetProgramBuildInfo
	clReleaseProgram
	clCreateKernel
	clReleaseKernel
	clGetKernelWorkGroupInfo
	clSetKernelArg
	clCreateBuffer
	clCreateImage
	clReleaseMemObject
	clEnqueueNDRangeKernel
	clEnqueueReadBuffer
	clEnqueueReadBufferRect
	clEnqueueWriteBuffer
	clEnqueueWriteBufferRect
	clEnqueueCopyBuffer
	clEnqueueMapBuffer
	clEnqueueUnmapMemObject
	clFlush
	clFinish
	clWaitForEvents
	clGetEventInfo
	clGetEventProfilingInfo
	clRetainEvent
	clReleaseEvent
	clCreateBufferWithProperties
	entries

	laterEntries = clCreateBufferWithProperties
)

var entryNames = [entries]string{
	"clGetPlatformIDs", "clGetPlatformInfo", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext", "clReleaseContext",
	"clCreateCommandQueue", "clReleaseCommandQueue", "clCreateProgramWithSource", "clBuildProgram", "clGetProgramInfo", "clGetProgramBuildInfo",
	"clReleaseProgram", "clCreateKernel", "clReleaseKernel", "clGetKernelWorkGroupInfo", "clSetKernelArg", "clCreateBuffer", "clCreateImage",
	"clReleaseMemObject",
	"clEnqueueNDRangeKernel", "clEnqueueReadBuffer", "clEnqueueReadBufferRect", "clEnqueueWriteBuffer", "clEnqueueWriteBufferRect", "clEnqueueCopyBuffer", "clEnqueueMapBuffer",
	"clEnqueueUnmapMemObject", "clFlush", "clFinish", "clWaitForEvents", "clGetEventInfo", "clGetEventProfilingInfo", "clRetainEvent", "clReleaseEvent",
	"clCreateBufferWithProperties",
}

// functions holds the addresses of the driver's functions.
var functions [entries]uintptr

// load loads the driver once; later calls return the first result.
var load = sync.OnceValue(func() error {
	var failed error
	for _, name := range libraries() {
		find, err := openLibrary(name)
		if errors.Is(err, ErrNotBuilt) {
			return err
		}
		if err != nil {
			failed = firstError(failed, err)
			continue
		}
		if err := findAll(find, entryNames[:laterEntries], functions[:laterEntries]); err != nil {
			return fmt.Errorf("%s: not an OpenCL 1.2 driver: %w", name, err)
		}
		// Later functions are optional: callers check for a zero address.
		_ = findAll(find, entryNames[laterEntries:], functions[laterEntries:])
		return nil
	}
	return fmt.Errorf("%w (%w)", ErrNoDriver, failed)
})

// firstError returns first unless it is nil. The first error concerns the usual
// library name, so it is the most useful one.
func firstError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// findAll looks up the addresses of functions.
func findAll(find func(string) (uintptr, error), names []string, addresses []uintptr) (err error) {
	for i, name := range names {
		if addresses[i], err = find(name); err != nil {
			return err
		}
	}
	return nil
}

// Error is an error code returned by the driver.
type Error struct {
	Call string // the failed function
	Code int32
}

func (e *Error) Error() string {
	name := errorNames[e.Code]
	if name == "" {
		name = "unknown error"
	}
	return fmt.Sprintf("opencl: %s: %s (%d)", e.Call, name, e.Code)
}

var errorNames = map[int32]string{
	-1: "no device of that kind", -2: "the device is not available", -3: "the compiler is not available",
	-4: "out of device memory", -5: "out of resources", -6: "out of host memory", -7: "no profiling information",
	-10: "the image format is not supported", -11: "the program does not build", -14: "an earlier command failed", -30: "invalid value", -32: "invalid platform",
	-33: "invalid device", -34: "invalid context", -36: "invalid queue", -38: "invalid memory object",
	-39: "invalid image format", -40: "invalid image size",
	-43: "invalid build options", -45: "invalid program", -46: "invalid kernel name", -48: "invalid kernel",
	-49: "invalid argument index", -50: "invalid argument value", -51: "invalid argument size", -52: "an argument is not set",
	-54: "invalid work-group size", -55: "invalid work-item size", -58: "invalid event", -61: "invalid buffer size",
	-65: "invalid image description", -69: "invalid operation",
	-1001: "no driver is installed",
}

// status calls a function that returns an error code.
//
//go:uintptrescapes
func status(e entry, args ...uintptr) error {
	if code := int32(call(functions[e], args...)); code != 0 {
		return &Error{entryNames[e], code}
	}
	return nil
}

// OpenCL's constants.
const (
	platformName = 0x0902

	deviceKind          = 0x1000
	deviceComputeUnits  = 0x1002
	deviceMaxGroup      = 0x1004
	deviceMaxAllocation = 0x1010
	deviceImages        = 0x1016
	deviceMemory        = 0x101F
	deviceLocalMemory   = 0x1023
	deviceName          = 0x102B
	deviceDriver        = 0x102D
	deviceVersion       = 0x102F
	deviceExtensions    = 0x1030
	deviceHalfConfig    = 0x1033
	deviceHostUnified   = 0x1035
	deviceImageUnits    = 0x1040
	deviceComputeMajor  = 0x4000 // NVIDIA's
	deviceComputeMinor  = 0x4001
	deviceUUID          = 0x106A

	kindCPU         = 1 << 1
	kindGPU         = 1 << 2
	kindAccelerator = 1 << 3

	roundToNearest = 1 << 2

	queueProfiling = 1 << 1

	memReadWrite    = 1 << 0
	memReadOnly     = 1 << 2
	memUseHostPtr   = 1 << 3
	memAllocHostPtr = 1 << 4
	mapRead         = 1 << 0
	mapWrite        = 1 << 1

	imageRGBA     = 0x10B5
	imageUint32   = 0x10DC
	imageOfBuffer = 0x10F6

	memoryFromFile = 0x2060

	programSizes    = 0x1165
	programBinaries = 0x1166
	programBuildLog = 0x1183
	kernelMaxGroup  = 0x11B0

	eventStatus       = 0x11D3
	eventComplete     = 0
	eventStart        = 0x1282
	eventEnd          = 0x1283
	deviceNotFound    = -1
	platformsNotFound = -1001
)
