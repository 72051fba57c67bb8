package vfs

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// systemQueue wraps Linux asynchronous I/O (io_submit). Container sandboxes that forbid the
// newer io_uring allow it.
type systemQueue struct {
	context    uintptr
	blocks     []controlBlock  // [depth]
	submitList []*controlBlock // [depth] argument of io_submit
	events     []ioEvent       // [depth]
}

// controlBlock is the kernel's struct iocb.
type controlBlock struct {
	data   uint64
	_      uint32
	_      uint32
	opcode uint16
	_      int16
	fd     uint32
	memory uint64
	bytes  uint64
	off    int64
	_      [2]uint64
}

// ioEvent is the kernel's struct io_event.
type ioEvent struct {
	data uint64
	_    uint64
	res  int64
	_    int64
}

// eventRing is the beginning of the kernel's struct aio_ring, which the kernel maps at the
// address systemQueue.context. The completed events are between head and tail.
type eventRing struct {
	_, _       uint32
	head, tail uint32
	magic      uint32
}

// eventRingMagic is the magic number of the ring layout that ringEmpty understands.
const eventRingMagic = 0xa10a10a1

// opRead is IOCB_CMD_PREAD.
const opRead = 0

// open creates the kernel's I/O context for depth reads. It returns false if the system
// does not allow that.
func (s *systemQueue) open(depth int) bool {
	// Android kills apps that make system calls outside its allow list.
	if _, err := os.Stat("/system/build.prop"); err == nil || runtime.GOOS == "android" || os.Getenv("ANDROID_ROOT") != "" {
		return false
	}
	_, _, errno := unix.Syscall(unix.SYS_IO_SETUP, uintptr(depth), uintptr(unsafe.Pointer(&s.context)), 0)
	if errno != 0 {
		return false
	}
	s.blocks, s.submitList, s.events = make([]controlBlock, depth), make([]*controlBlock, depth), make([]ioEvent, depth)
	return true
}

// submit passes q.unsubmitted to the system and returns how many reads it accepted.
func (s *systemQueue) submit(q *ReadQueue) int {
	for i, slot := range q.unsubmitted {
		r := &q.pending[slot]
		s.blocks[slot] = controlBlock{
			data: uint64(slot), opcode: opRead, fd: uint32(r.fd),
			memory: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.p)))), bytes: uint64(len(r.p)), off: r.off,
		}
		s.submitList[i] = &s.blocks[slot]
	}
	for {
		n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, s.context, uintptr(len(q.unsubmitted)), uintptr(unsafe.Pointer(unsafe.SliceData(s.submitList))))
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return 0
		default:
			return int(n)
		}
	}
}

// collectCompleted appends completed reads to q.completed. If there is none, it waits up to
// wait for one.
func (s *systemQueue) collectCompleted(q *ReadQueue, wait time.Duration) {
	if q.inFlight() == 0 {
		return
	}
	least := uintptr(0)
	if wait > 0 {
		least = 1
	} else if s.ringEmpty() {
		return
	}
	limit := unix.NsecToTimespec(int64(wait))
	n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, s.context, least, uintptr(len(s.events)),
		uintptr(unsafe.Pointer(unsafe.SliceData(s.events))), uintptr(unsafe.Pointer(&limit)), 0)
	if errno != 0 { // the caller retries
		if errno != unix.EINTR {
			time.Sleep(time.Millisecond)
		}
		return
	}
	for _, e := range s.events[:n] { // data holds the slot
		q.completed = append(q.completed, completedRead{int(e.data), int(max(0, e.res))})
	}
}

// ringEmpty reports whether no read has completed. It reads the ring in user-space memory,
// which saves a system call, and returns false if the ring has an unknown layout.
func (s *systemQueue) ringEmpty() bool {
	ring := *(**eventRing)(unsafe.Pointer(&s.context)) // kernel memory: the garbage collector ignores it
	return ring.magic == eventRingMagic && atomic.LoadUint32(&ring.head) == atomic.LoadUint32(&ring.tail)
}

func (s *systemQueue) close() {
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, s.context, 0, 0)
}
