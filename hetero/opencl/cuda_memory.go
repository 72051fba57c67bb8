package opencl

import (
	"errors"
	"fmt"
	"unsafe"
)

// cudaMemory is device memory allocated by CUDA.
type cudaMemory struct {
	address, handle uintptr
	size            int
	file            int32
	access          struct{ place, device, rights int32 }
}

// cudaAllocation is CUDA's struct CUmemAllocationProp.
type cudaAllocation struct {
	kind, handles, place, device int32
	windows                      uintptr
	flags                        [8]byte
}

// allocation describes exportable device memory.
func (c *cudaContext) allocation() *cudaAllocation {
	return &cudaAllocation{kind: cudaPinned, handles: cudaFile, place: cudaOnDevice, device: c.device}
}

// allocShared allocates memory with CUDA and imports it as an OpenCL buffer, which
// closes the file descriptor. NVIDIA's driver needs no acquire or release of the
// buffer.
func (c *Context) allocShared(size int) (*Memory, error) {
	s, err := c.cuda.newMemory(size)
	if err != nil {
		return nil, fmt.Errorf("%d bytes: %w", size, err)
	}
	properties := []uintptr{memoryFromFile, uintptr(s.file), 0}
	handle := call(functions[clCreateBufferWithProperties], c.context, uintptr(unsafe.Pointer(&properties[0])), memReadWrite, uintptr(s.size), 0, uintptr(unsafe.Pointer(&c.code)))
	m, err := c.newMemory(clCreateBufferWithProperties, handle, size)
	if err != nil {
		return nil, errors.Join(err, c.cuda.freeMemory(s))
	}
	m.shared = s
	c.stats.Held += int64(s.size - size)
	return m, nil
}

// newMemory allocates exportable memory.
func (c *cudaContext) newMemory(size int) (_ *cudaMemory, err error) {
	defer c.leave()
	if err := c.enter(); err != nil {
		return nil, err
	}
	m, wanted := &cudaMemory{size: roundUp(size, RecordableGranularity)}, c.allocation()
	if err := c.doEscaping(cuMemCreate, uintptr(unsafe.Pointer(&m.handle)), uintptr(m.size), uintptr(unsafe.Pointer(wanted)), 0); err != nil {
		return nil, err
	}
	if err = c.place(m); err != nil {
		err = errors.Join(err, c.freeMemory(m))
	}
	return m, err
}

// place maps memory to an address and exports it as a file descriptor.
func (c *cudaContext) place(m *cudaMemory) error {
	if err := c.doEscaping(cuMemAddressReserve, uintptr(unsafe.Pointer(&m.address)), uintptr(m.size), 0, 0, 0); err != nil {
		return err
	}
	if err := c.do(cuMemMap, m.address, uintptr(m.size), 0, m.handle, 0); err != nil {
		return err
	}
	m.access.place, m.access.device, m.access.rights = cudaOnDevice, c.device, cudaReadAndWrite
	if err := c.doEscaping(cuMemSetAccess, m.address, uintptr(m.size), uintptr(unsafe.Pointer(&m.access)), 1); err != nil {
		return err
	}
	return c.doEscaping(cuMemExportToShareableHandle, uintptr(unsafe.Pointer(&m.file)), m.handle, cudaFile, 0)
}

// freeMemory frees memory after its buffer was released.
func (c *cudaContext) freeMemory(m *cudaMemory) error {
	defer c.leave()
	err := c.enter()
	if m.address != 0 {
		err = errors.Join(err, c.do(cuMemUnmap, m.address, uintptr(m.size)), c.do(cuMemAddressFree, m.address, uintptr(m.size)))
	}
	return errors.Join(err, c.do(cuMemRelease, m.handle))
}

// pin allocates pinned host memory for copies.
func (c *cudaContext) pin(size int) (address uintptr, b []byte, err error) {
	defer c.leave()
	if err := c.enter(); err != nil {
		return 0, nil, err
	}
	at := new(uintptr)
	if err := c.doEscaping(cuMemHostAlloc, uintptr(unsafe.Pointer(at)), uintptr(size), 0); err != nil {
		return 0, nil, fmt.Errorf("%d bytes: %w", size, err)
	}
	return *at, unsafe.Slice(pointer(*at), size), nil
}

func (c *cudaContext) unpin(address uintptr) error {
	defer c.leave()
	return errors.Join(c.enter(), c.do(cuMemFreeHost, address))
}
