package opencl

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/tiering"
)

// Memory is a buffer of a device.
type Memory struct {
	context *Context
	handle  uintptr
	size    int
	frame   *tiering.Frame // its memory, on devices that share memory
	host    []byte         // of a staging buffer, or of the frame
	lease   *tiering.Lease // of a staging buffer
	mapped  uintptr        // address of a mapped staging buffer
	shared  *cudaMemory    // if CUDA allocated it, for graphs
}

// Alloc allocates a buffer. On a device that shares memory, Alloc charges the budget
// for it under the purpose. Other devices use their own memory.
func (c *Context) Alloc(purpose tiering.Purpose, size int) (*Memory, error) {
	if err := c.checkFits(size, size); err != nil {
		return nil, err
	}
	if !c.SharesMemory {
		return c.create(memReadWrite, size, nil)
	}
	frame, err := tiering.Alloc(c.budget, purpose, size)
	if err != nil {
		return nil, err
	}
	m, err := c.WrapHost(frame.Bytes()[:size])
	if err != nil {
		frame.Free()
		return nil, err
	}
	m.frame, m.host = frame, frame.Bytes()[:size]
	return m, nil
}

// checkFits returns an error if a buffer of size bytes exceeds a limit. taken is the
// size with padding.
func (c *Context) checkFits(size, taken int) error {
	if size <= 0 || int64(size) > c.Info.MaxAllocation { // limit of one buffer
		return &hetero.MemoryError{Device: c.Info.Name, Need: int64(size), Limit: c.Info.MaxAllocation}
	}
	if c.stats.Held+int64(taken) > c.Info.Memory {
		return &hetero.MemoryError{Device: c.Info.Name, Need: int64(taken), Held: c.stats.Held, Limit: c.Info.Memory}
	}
	return nil
}

// WrapHost creates a buffer over memory of the machine, which must begin at a page
// and outlive the buffer. Unless the device shares memory, host and device see each
// other's writes only after a map or a finish.
func (c *Context) WrapHost(b []byte) (*Memory, error) {
	return c.create(memReadWrite|memUseHostPtr, len(b), b)
}

func (c *Context) create(flags uintptr, size int, host []byte) (*Memory, error) {
	handle := call(functions[clCreateBuffer], c.context, flags, uintptr(size), uintptr(unsafe.Pointer(unsafe.SliceData(host))), uintptr(unsafe.Pointer(&c.code)))
	return c.newMemory(clCreateBuffer, handle, size)
}

// newMemory counts the buffer that the call way has just created.
func (c *Context) newMemory(way entry, handle uintptr, size int) (*Memory, error) {
	if err := c.created(way); err != nil {
		return nil, fmt.Errorf("%d bytes: %w", size, err)
	}
	c.memories++
	c.stats.Held += int64(size)
	return &Memory{context: c, handle: handle, size: size}, nil
}

// Stage allocates a buffer of host memory for copies to and from the device. Unless
// the device shares memory, the driver pins the buffer. The buffer stays mapped, so
// kernels and copies between device buffers must not use it.
func (c *Context) Stage(purpose tiering.Purpose, size int) (*Memory, error) {
	if c.SharesMemory {
		return c.Alloc(purpose, size)
	}
	lease, err := c.budget.Reserve(purpose, int64(size))
	if err != nil {
		return nil, err
	}
	m, err := c.create(memReadWrite|memAllocHostPtr, size, nil)
	if err != nil {
		lease.Release()
		return nil, err
	}
	m.lease = lease
	m.mapped = call(functions[clEnqueueMapBuffer], c.queue, m.handle, 1, mapRead|mapWrite, 0, uintptr(size), 0, 0, 0, uintptr(unsafe.Pointer(&c.code)))
	if err := c.created(clEnqueueMapBuffer); err != nil {
		return nil, errors.Join(err, m.Free())
	}
	m.host = unsafe.Slice(pointer(m.mapped), size)
	return m, nil
}

// pointer converts an address outside Go's heap.
func pointer(address uintptr) *byte { return *(**byte)(unsafe.Pointer(&address)) }

// Host returns the bytes of a staging buffer, or of a buffer in shared memory; nil
// for others.
func (m *Memory) Host() []byte { return m.host }

// Size returns the length in bytes.
func (m *Memory) Size() int { return m.size }

// Free frees the buffer. No pending command may use it.
func (m *Memory) Free() error {
	if m == nil || m.handle == 0 {
		return nil
	}
	var err error
	if m.mapped != 0 {
		err = status(clEnqueueUnmapMemObject, m.context.queue, m.handle, m.mapped, 0, 0, 0)
	}
	err = errors.Join(err, status(clReleaseMemObject, m.handle))
	m.handle, m.mapped = 0, 0
	m.context.memories--
	m.context.stats.Held -= int64(m.size)
	if m.shared != nil {
		err = errors.Join(err, m.context.cuda.freeMemory(m.shared))
		m.context.stats.Held -= int64(m.shared.size - m.size)
	}
	if m.frame != nil {
		m.frame.Free()
	}
	if m.lease != nil {
		m.lease.Release()
	}
	m.host = nil
	return err
}

// Write copies bytes into the buffer, after earlier commands, and waits for
// completion.
func (m *Memory) Write(off int, b []byte) error {
	c := m.context
	c.bytes = b
	start := time.Now()
	err := m.copyIn(off, c.address(), len(b), true)
	c.bytes = nil
	if err == nil {
		c.drained(start)
	}
	return err
}

// WriteFloats writes numbers at an element of the buffer.
func (m *Memory) WriteFloats(at int, values []float32) error {
	return m.Write(4*at, floatBytes(values))
}

// Send starts a copy from a staging buffer into this one, after earlier commands. The
// host must not change the bytes until the copy is done.
func (m *Memory) Send(off int, from *Memory, at, size int) error {
	return m.copyIn(off, hostAddress(from.host[at:][:size]), size, false)
}

func (m *Memory) copyIn(off int, from uintptr, size int, wait bool) error {
	c := m.context
	if size == 0 {
		return nil
	}
	c.stats.Writes++
	c.stats.WriteBytes += int64(size)
	c.busy = true
	err := c.do(clEnqueueWriteBuffer, c.queue, m.handle, uintptr(flag(wait)), uintptr(off), uintptr(size), from, 0, 0, c.eventPointer(c.tracer != nil))
	if err != nil {
		return err
	}
	c.traced("write")
	return nil
}

// Read waits for earlier commands and copies bytes from the buffer.
func (m *Memory) Read(off int, b []byte) error {
	c := m.context
	start := c.beginRead(b, len(b))
	err := c.do(clEnqueueReadBuffer, c.queue, m.handle, 1, uintptr(off), uintptr(len(b)), c.address(), 0, 0, c.eventPointer(c.tracer != nil))
	return c.endCopy("read", start, err)
}

// beginRead counts a read into b. The context holds b until endCopy.
func (c *Context) beginRead(b []byte, size int) time.Time {
	c.stats.Reads++
	c.stats.ReadBytes += int64(size)
	c.bytes = b
	return time.Now()
}

// endCopy finishes a blocking read or write.
func (c *Context) endCopy(name string, start time.Time, err error) error {
	c.bytes = nil
	if err != nil {
		return err
	}
	c.traced(name)
	c.drained(start)
	return nil
}

// readRows waits for earlier commands and copies rows of a matrix from the buffer
// to the same offsets of b.
func (m *Memory) readRows(r rows, b []byte) error {
	if r.count == 1 || r.stride() == r.size() {
		return m.Read(r.offset(), b[r.offset():][:r.count*r.size()])
	}
	start := m.context.beginRead(b[r.offset():], r.count*r.size())
	err := m.copyRows(clEnqueueReadBufferRect, r)
	return m.context.endCopy("read", start, err)
}

// writeRows copies rows of a matrix from b to the same offsets of the buffer, after
// earlier commands, and waits for completion.
func (m *Memory) writeRows(r rows, b []byte) error {
	if r.count == 1 || r.stride() == r.size() {
		return m.Write(r.offset(), b[r.offset():][:r.count*r.size()])
	}
	c := m.context
	c.stats.Writes++
	c.stats.WriteBytes += int64(r.count * r.size())
	c.bytes = b[r.offset():]
	start := time.Now()
	err := m.copyRows(clEnqueueWriteBufferRect, r)
	return c.endCopy("write", start, err)
}

// copyRows copies strided rows between the buffer and the context's bytes, in the
// direction of the given call.
func (m *Memory) copyRows(way entry, r rows) error {
	c := m.context
	c.global, c.local = [3]uintptr{uintptr(r.offset())}, [3]uintptr{} // first row, in the buffer and in c.bytes
	c.region = [3]uintptr{uintptr(r.size()), uintptr(r.count), 1}
	return c.do(way, c.queue, m.handle, 1,
		uintptr(unsafe.Pointer(&c.global)), uintptr(unsafe.Pointer(&c.local)), uintptr(unsafe.Pointer(&c.region)),
		uintptr(r.stride()), 0, uintptr(r.stride()), 0, c.address(), 0, 0, c.eventPointer(c.tracer != nil))
}

// address returns the address of c.bytes. These bytes are outside the stack: on the
// heap, because the context refers to them, or outside Go's memory.
func (c *Context) address() uintptr { return hostAddress(c.bytes) }

func hostAddress(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Copy copies the first bytes of another buffer of the device.
func (m *Memory) Copy(from *Memory, size int) error { return m.CopyPart(0, from, 0, size) }

// CopyPart copies part of another buffer of the device.
func (m *Memory) CopyPart(off int, from *Memory, at, size int) error {
	c := m.context
	c.stats.Copies++
	c.busy = true
	if err := c.do(clEnqueueCopyBuffer, c.queue, from.handle, m.handle, uintptr(at), uintptr(off), uintptr(size), 0, 0, c.eventPointer(c.tracer != nil)); err != nil {
		return err
	}
	c.traced("copy")
	return nil
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// probeSharing tests whether a kernel sees the host's writes in shared memory, and the
// host the kernel's writes. It returns false if the driver rejects such memory when
// the buffer is created or when a kernel uses it.
func (c *Context) probeSharing() (_ bool, err error) {
	frame, err := tiering.Alloc(c.budget, tiering.Shared, 4096)
	if err != nil {
		return false, err
	}
	defer frame.Free()
	m, err := c.WrapHost(frame.Bytes()[:4096])
	if err != nil {
		return false, ignoreDriverError(err)
	}
	defer func() { err = errors.Join(err, m.Free()) }()
	k, err := c.Kernel("probe.cl", "", "probe")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	if err := k.Set(m); err != nil {
		return false, err
	}
	words := frame.Floats()[:1024]
	for round := range 4 { // the first round may succeed by chance
		for i := range words {
			words[i] = float32(i * (round + 1))
		}
		if err := errors.Join(c.Launch(k, []int{1024}, []int{64}), c.Finish()); err != nil {
			return false, ignoreDriverError(err)
		}
		for i := range words {
			if words[i] != float32(i*(round+1))+1 {
				return false, nil
			}
		}
	}
	return true, nil
}

// ignoreDriverError returns nil for driver errors and err for others.
func ignoreDriverError(err error) error {
	var refused *Error
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// floatBytes returns the bytes of numbers in the machine's byte order.
func floatBytes(values []float32) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
}
