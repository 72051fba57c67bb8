package opencl

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

// NVIDIA's drivers offer two interfaces to one device. OpenCL compiles kernels and
// runs everything except graphs. CUDA runs graphs of the same kernels, on memory
// that CUDA has allocated and OpenCL has imported. The two do not see each other's
// queues, so the host waits for one before it uses the other.

const cudaLibrary = "libcuda.so.1"

// cudaEntry is one function of CUDA's driver.
type cudaEntry int

// The functions that the package calls.
const (
	cuInit cudaEntry = iota
	cuDeviceGetCount
	cuDeviceGet
	cuDeviceGetUuid
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuCtxSetCurrent
	cuStreamCreate
	cuStreamDestroy
	cuStreamSynchronize
	cuStreamBeginCapture
	cuStreamEndCapture
	cuGraphInstantiate
	cuGraphDestroy
	cuGraphExecDestroy
	cuGraphLaunch
	cuLaunchKernel
	cuMemcpyHtoDAsync
	cuMemcpyDtoHAsync
	cuModuleLoadData
	cuModuleUnload
	cuModuleGetFunction
	cuMemGetAllocationGranularity
	cuMemCreate
	cuMemRelease
	cuMemExportToShareableHandle
	cuMemAddressReserve
	cuMemAddressFree
	cuMemMap
	cuMemUnmap
	cuMemSetAccess
	cuMemHostAlloc
	cuMemFreeHost
	cudaEntries
)

var cudaNames = [cudaEntries]string{
	"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetUuid", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxSetCurrent",
	"cuStreamCreate", "cuStreamDestroy_v2", "cuStreamSynchronize", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
	"cuGraphInstantiateWithFlags", "cuGraphDestroy", "cuGraphExecDestroy", "cuGraphLaunch", "cuLaunchKernel",
	"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction",
	"cuMemGetAllocationGranularity", "cuMemCreate", "cuMemRelease", "cuMemExportToShareableHandle", "cuMemAddressReserve", "cuMemAddressFree",
	"cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemHostAlloc", "cuMemFreeHost",
}

// CUDA's constants.
const (
	cudaNonBlocking  = 1 // of streams: independent of the default one
	cudaRelaxed      = 2 // of captures: allows other calls during the capture
	cudaPinned       = 1 // of allocations: device memory that stays resident
	cudaFile         = 1 // of handles: a file descriptor
	cudaOnDevice     = 1 // of locations
	cudaReadAndWrite = 3
)

var cudaFunctions [cudaEntries]uintptr

// loadCUDA loads the driver once.
var loadCUDA = sync.OnceValue(func() error {
	find, err := openLibrary(cudaLibrary)
	if err != nil {
		return err
	}
	return findAll(find, cudaNames[:], cudaFunctions[:])
})

// cudaContext is the CUDA context of a device.
type cudaContext struct {
	device          int32
	context, stream uintptr
	modules         map[uintptr]uintptr // by OpenCL program

	// Operands of driver calls. They are fields so that they stay in place and
	// calls do not allocate.
	args           [12]uintptr
	values, places []uintptr // of a launch's arguments
}

// doEscaping is do for arguments that point to Go memory. The directive moves that
// memory to the heap, because the runtime may move a stack during the call.
//
//go:uintptrescapes
func (c *cudaContext) doEscaping(e cudaEntry, args ...uintptr) error { return c.do(e, args...) }

// do calls a function of the driver. The device must be current on this thread. do
// does not allocate.
func (c *cudaContext) do(e cudaEntry, args ...uintptr) error {
	n := copy(c.args[:], args)
	if code := int32(call(cudaFunctions[e], c.args[:n]...)); code != 0 {
		return fmt.Errorf("cuda: %s: error %d", cudaNames[e], code)
	}
	return nil
}

// enter makes the device current and locks the goroutine to its thread until leave.
func (c *cudaContext) enter() error {
	runtime.LockOSThread()
	return c.do(cuCtxSetCurrent, c.context)
}

func (c *cudaContext) leave() { runtime.UnlockOSThread() }

// openCUDA opens the CUDA device that corresponds to an OpenCL device.
func openCUDA(info *Info) (*cudaContext, error) {
	if !info.nvidia || info.uuid == [16]byte{} || functions[clCreateBufferWithProperties] == 0 {
		return nil, errNoGraphs
	}
	if err := loadCUDA(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoGraphs, err)
	}
	c := &cudaContext{modules: map[uintptr]uintptr{}}
	if err := c.findDevice(info.uuid); err != nil {
		return nil, err
	}
	if err := c.doEscaping(cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(&c.context)), uintptr(c.device)); err != nil {
		return nil, err
	}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// start creates the stream and checks that the allocation granularity divides
// RecordableGranularity.
func (c *cudaContext) start() error {
	defer c.leave()
	if err := c.enter(); err != nil {
		return err
	}
	if err := c.doEscaping(cuStreamCreate, uintptr(unsafe.Pointer(&c.stream)), cudaNonBlocking); err != nil {
		return err
	}
	step, wanted := new(int), c.allocation()
	err := c.doEscaping(cuMemGetAllocationGranularity, uintptr(unsafe.Pointer(step)), uintptr(unsafe.Pointer(wanted)), 0)
	if err == nil && (*step == 0 || RecordableGranularity%*step != 0) {
		err = fmt.Errorf("%w: its allocation granularity is %d bytes", errNoGraphs, *step)
	}
	return err
}

// findDevice finds the device with a UUID.
func (c *cudaContext) findDevice(uuid [16]byte) error {
	if err := c.do(cuInit, 0); err != nil {
		return err
	}
	seen := new(struct {
		count int32
		uuid  [16]byte
	})
	if err := c.doEscaping(cuDeviceGetCount, uintptr(unsafe.Pointer(&seen.count))); err != nil {
		return err
	}
	for i := range seen.count {
		if err := c.doEscaping(cuDeviceGet, uintptr(unsafe.Pointer(&c.device)), uintptr(i)); err != nil {
			return err
		}
		if err := c.doEscaping(cuDeviceGetUuid, uintptr(unsafe.Pointer(&seen.uuid)), uintptr(c.device)); err != nil {
			return err
		}
		if seen.uuid == uuid {
			return nil
		}
	}
	return errNoGraphs
}

// close releases the device. The caller closes its memory and graphs first.
func (c *cudaContext) close() error {
	if c == nil {
		return nil
	}
	defer c.leave()
	err := c.enter()
	for _, m := range c.modules {
		err = errors.Join(err, c.do(cuModuleUnload, m))
	}
	if c.stream != 0 {
		err = errors.Join(err, c.do(cuStreamDestroy, c.stream))
	}
	return errors.Join(err, c.do(cuDevicePrimaryCtxRelease, uintptr(c.device)))
}

// function returns the CUDA function of a kernel in an OpenCL program.
func (c *cudaContext) function(program uintptr, name string) (uintptr, error) {
	defer c.leave()
	if err := c.enter(); err != nil {
		return 0, err
	}
	found := new(struct{ module, function uintptr })
	module, ok := c.modules[program]
	if !ok {
		text, err := assembly(program)
		if err != nil {
			return 0, err
		}
		if err := c.doEscaping(cuModuleLoadData, uintptr(unsafe.Pointer(&found.module)), uintptr(unsafe.Pointer(&text[0]))); err != nil {
			return 0, err
		}
		module = found.module
		c.modules[program] = module
	}
	text := append([]byte(name), 0)
	err := c.doEscaping(cuModuleGetFunction, uintptr(unsafe.Pointer(&found.function)), module, uintptr(unsafe.Pointer(&text[0])))
	return found.function, err
}

// assembly returns the binary of a program that was built for one device, with a
// zero byte appended.
func assembly(program uintptr) ([]byte, error) {
	var size uintptr
	if err := status(clGetProgramInfo, program, programSizes, unsafe.Sizeof(size), uintptr(unsafe.Pointer(&size)), 0); err != nil {
		return nil, err
	}
	text := make([]byte, size+1)
	list := []*byte{&text[0]}
	return text, status(clGetProgramInfo, program, programBinaries, unsafe.Sizeof(list[0]), uintptr(unsafe.Pointer(&list[0])), 0)
}
