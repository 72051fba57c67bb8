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
	frame   *tiering.Frame // that it lies in, on devices that share memory
	host    []byte         // of a staging buffer, or of the frame
	lease   *tiering.Lease // of a staging buffer
	mapped  uintptr        // where a staging buffer is mapped
	shared  *cudaMemory    // that it is for CUDA, where graphs use it
}

// Alloc makes a buffer. On a device that shares memory it is charged to the budget
// under the purpose; on others it is the device's own memory.
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

// checkFits tells why a buffer of some size, for which so much is taken, cannot be made.
func (c *Context) checkFits(size, taken int) error {
	if size <= 0 || int64(size) > c.Info.MaxAllocation { // of one buffer
		return &hetero.MemoryError{Device: c.Info.Name, Need: int64(size), Limit: c.Info.MaxAllocation}
	}
	if c.stats.Held+int64(taken) > c.Info.Memory {
		return &hetero.MemoryError{Device: c.Info.Name, Need: int64(taken), Held: c.stats.Held, Limit: c.Info.Memory}
	}
	return nil
}

// WrapHost makes a buffer over memory of the machine, which must begin at a page and
// stay until the buffer is freed. Unless the device shares memory, only mapping it
// or finishing makes one side see what the other wrote.
func (c *Context) WrapHost(b []byte) (*Memory, error) {
	return c.create(memReadWrite|memUseHostPtr, len(b), b)
}

func (c *Context) create(flags uintptr, size int, host []byte) (*Memory, error) {
	handle := call(functions[clCreateBuffer], c.context, flags, uintptr(size), uintptr(unsafe.Pointer(unsafe.SliceData(host))), uintptr(unsafe.Pointer(&c.code)))
	return c.newMemory(clCreateBuffer, handle, size)
}

// newMemory counts a buffer that was just made in some way.
func (c *Context) newMemory(way entry, handle uintptr, size int) (*Memory, error) {
	if err := c.created(way); err != nil {
		return nil, fmt.Errorf("%d bytes: %w", size, err)
	}
	c.memories++
	c.stats.Held += int64(size)
	return &Memory{context: c, handle: handle, size: size}, nil
}

// Stage makes a buffer of the machine's memory for writing to the device and
// reading from it: where the device copies, memory that its driver has pinned. It
// stays mapped, so no kernel or copy on the device may use it.
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

// pointer makes a pointer of an address outside Go's heap.
func pointer(address uintptr) *byte { return *(**byte)(unsafe.Pointer(&address)) }

// Host returns the bytes of a staging buffer, or of one of a device that shares
// memory; nil for others.
func (m *Memory) Host() []byte { return m.host }

// Size returns the length in bytes.
func (m *Memory) Size() int { return m.size }

// Free gives the buffer back. Nothing that uses it may be under way.
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

// Write copies bytes into the buffer, after what was submitted before, and waits
// until they are there.
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

// WriteFloats is Write of numbers, to an element of the buffer.
func (m *Memory) WriteFloats(at int, values []float32) error {
	return m.Write(4*at, floatBytes(values))
}

// Send copies bytes of a staging buffer into this one, after what was submitted
// before. They must stay until that is finished.
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

// Read copies bytes from the buffer once everything submitted before is done, and
// waits for that.
func (m *Memory) Read(off int, b []byte) error {
	c := m.context
	start := c.beginRead(b, len(b))
	err := c.do(clEnqueueReadBuffer, c.queue, m.handle, 1, uintptr(off), uintptr(len(b)), c.address(), 0, 0, c.eventPointer(c.tracer != nil))
	return c.endCopy("read", start, err)
}

// beginRead counts a read of so many bytes into b, which the context holds until it
// has ended.
func (c *Context) beginRead(b []byte, size int) time.Time {
	c.stats.Reads++
	c.stats.ReadBytes += int64(size)
	c.bytes = b
	return time.Now()
}

// endCopy ends a read or a write that was waited for.
func (c *Context) endCopy(name string, start time.Time, err error) error {
	c.bytes = nil
	if err != nil {
		return err
	}
	c.traced(name)
	c.drained(start)
	return nil
}

// readRows copies rows of a matrix from the buffer to the same places of b, once
// everything submitted before is done, and waits for that.
func (m *Memory) readRows(r rows, b []byte) error {
	if r.count == 1 || r.stride() == r.size() {
		return m.Read(r.offset(), b[r.offset():][:r.count*r.size()])
	}
	start := m.context.beginRead(b[r.offset():], r.count*r.size())
	err := m.copyRows(clEnqueueReadBufferRect, r)
	return m.context.endCopy("read", start, err)
}

// writeRows copies rows of a matrix from b to the same places of the buffer, after
// what was submitted before, and waits until they are there.
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

// copyRows copies rows that lie apart between the buffer and the context's bytes, in
// one of two ways.
func (m *Memory) copyRows(way entry, r rows) error {
	c := m.context
	c.global, c.local = [3]uintptr{uintptr(r.offset())}, [3]uintptr{} // where the rows begin, here and in c.bytes
	c.region = [3]uintptr{uintptr(r.size()), uintptr(r.count), 1}
	return c.do(way, c.queue, m.handle, 1,
		uintptr(unsafe.Pointer(&c.global)), uintptr(unsafe.Pointer(&c.local)), uintptr(unsafe.Pointer(&c.region)),
		uintptr(r.stride()), 0, uintptr(r.stride()), 0, c.address(), 0, 0, c.eventPointer(c.tracer != nil))
}

// address is where the caller's bytes are. They are on the heap, because the
// context refers to them, or outside.
func (c *Context) address() uintptr { return hostAddress(c.bytes) }

func hostAddress(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Copy copies the beginning of another buffer of the device.
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

// probeSharing looks whether a kernel sees what the host has just written into
// memory that both use, and the host what the kernel wrote. A driver that refuses
// such memory, when it is made or when a kernel uses it, does not share.
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
	for round := range 4 { // the first may be right by chance
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

// ignoreDriverError returns an error that is not the driver's.
func ignoreDriverError(err error) error {
	var refused *Error
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// floatBytes returns the bytes of numbers, as devices of this machine have them.
func floatBytes(values []float32) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
}
