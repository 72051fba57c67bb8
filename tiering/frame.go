package tiering

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"
)

// hugePage is the minimum size of a frame for huge pages. On x86-64, and on arm64
// with 4 KiB pages, an entry of the second page-table level maps 2 MiB.
const hugePage = 2 << 20

// Frame is zeroed, page-aligned memory outside Go's heap. It has one owner. Any
// goroutine may access its bytes, under synchronization by the owner, until Free.
type Frame struct {
	lease *Lease
	pages []byte // the mapping, a whole number of pages
	bytes []byte // the requested bytes, a prefix of pages
	// mapping contains pages if the frame has mapped a larger range.
	mapping []byte
	freed   atomic.Bool
	// release unmaps pages that another owner has mapped; otherwise it is nil.
	release func()
}

// Adopt returns a frame of pages that the caller has mapped, with n bytes in use. The
// frame never writes to them; Free calls release. Resize works within the pages.
func Adopt(b *Budget, p Purpose, pages []byte, n int, release func()) (*Frame, error) {
	lease, err := b.Reserve(p, 0)
	if err != nil {
		return nil, err
	}
	f := &Frame{lease: lease, pages: pages, release: release}
	if err := f.Resize(n); err != nil {
		lease.Release()
		return nil, err
	}
	return f, nil
}

// AllocRoom is Alloc for a frame that can grow in place up to room bytes with
// [Frame.Resize]. Only the bytes in use are charged; the rest is address space.
func AllocRoom(b *Budget, p Purpose, n, room int) (*Frame, error) {
	f, err := Alloc(b, p, 0)
	if err != nil {
		return nil, err
	}
	size, err := pageRound(max(n, room))
	if err == nil && size > 0 {
		if f.pages, err = f.lease.reservePages(size); err == nil {
			adviseSmall(f.pages) // until they are in use
		}
	}
	if err == nil {
		err = f.Resize(n)
	}
	if err != nil {
		f.Free()
		return nil, err
	}
	return f, nil
}

// Resize changes the length of a frame from AllocRoom or Adopt to n bytes. Shrinking
// returns memory to the operating system and the budget at once. Added bytes are zero
// or have their former contents. On an error, a *BudgetError if the budget refuses,
// nothing has changed.
func (f *Frame) Resize(n int) error {
	size, err := pageRound(n)
	if err != nil {
		return fmt.Errorf("tiering: %s: %w", f.lease.purpose, err)
	}
	if f.release != nil {
		size = min(size, max(n, len(f.pages))) // a mapping may end within a page
	}
	if size > len(f.pages) {
		return fmt.Errorf("tiering: %s: a frame of %d bytes has room for %d", f.lease.purpose, n, len(f.pages))
	}
	before := int(f.lease.Bytes())
	if size > before {
		if err := f.lease.Resize(int64(size)); err != nil {
			return err
		}
		if err := f.lease.recommit(f.pages[before:size]); err != nil {
			_ = f.lease.Resize(int64(before)) // shrinking never fails
			return fmt.Errorf("tiering: %d more bytes for %s: %w", size-before, f.lease.purpose, err)
		}
		if size >= hugePage && f.release == nil {
			adviseHuge(f.pages[:size])
		}
	} else if size < before {
		if f.release == nil {
			poison(f.pages[size:before])
		}
		discard(f.pages[size:before])
		if f.release == nil {
			adviseSmall(f.pages[size:before])
		}
		if err := f.lease.Resize(int64(size)); err != nil {
			return err
		}
	}
	f.bytes = f.pages[:n:n]
	return nil
}

// Alloc reserves n bytes, rounded up to whole pages, and maps them. The error is a
// *BudgetError if the budget refuses, otherwise that of the operating system.
func Alloc(b *Budget, p Purpose, n int) (*Frame, error) {
	return allocPages(b, p, n, mapPages)
}

// AllocForReads is Alloc for a buffer into which a disk writes by direct memory access.
// A large buffer begins at a huge page. The disk needs a list entry for every
// physically contiguous piece of memory: with small pages, a read of half a megabyte
// takes 128 entries, and some disks have 256 for all reads in flight.
func AllocForReads(b *Budget, p Purpose, n int) (*Frame, error) {
	var mapping []byte
	f, err := allocPages(b, p, n, func(size int) (pages []byte, err error) {
		if size < hugePage {
			return mapPages(size)
		}
		mapping, pages, err = mapHuge(size)
		return pages, err
	})
	if err == nil {
		f.mapping = mapping
	}
	return f, err
}

// allocPages implements Alloc with a function that maps the pages.
func allocPages(b *Budget, p Purpose, n int, get func(size int) ([]byte, error)) (*Frame, error) {
	size, err := pageRound(n)
	if err != nil {
		return nil, fmt.Errorf("tiering: %s: %w", p, err)
	}
	lease, err := b.Reserve(p, int64(size))
	if err != nil {
		return nil, err
	}
	f := &Frame{lease: lease}
	if size == 0 {
		return f, nil // nothing to map; Free must still be called
	}
	if err = lease.mapFault(size); err == nil {
		f.pages, err = get(size)
	}
	if err != nil {
		lease.Release()
		return nil, fmt.Errorf("tiering: mapping %d bytes for %s: %w", size, p, err)
	}
	if size >= hugePage {
		adviseHuge(f.pages)
	}
	f.bytes = f.pages[:n:n]
	return f, nil
}

// pageRound rounds n up to whole pages.
func pageRound(n int) (int, error) {
	page := os.Getpagesize()
	if n < 0 || n > math.MaxInt-page {
		return 0, fmt.Errorf("invalid frame size of %d bytes", n)
	}
	return (n + page - 1) / page * page, nil
}

// Bytes returns the requested bytes of the frame, nil after Free.
func (f *Frame) Bytes() []byte { return f.bytes }

// Floats returns the frame as float32, without up to three trailing bytes.
func (f *Frame) Floats() []float32 {
	return unsafeView[float32](f.bytes, len(f.bytes)/4)
}

// Free returns the memory to the operating system and releases the lease. A second
// call panics, because the addresses may belong to another frame.
func (f *Frame) Free() {
	if f.freed.Swap(true) {
		panic(fmt.Sprintf("tiering: a frame of %d bytes (%s) was freed twice", f.lease.bytes, f.lease.purpose))
	}
	switch {
	case f.release != nil:
		f.release()
	case len(f.pages) > 0:
		poison(f.bytes)
		if f.mapping == nil {
			f.mapping = f.pages
		}
		unmapPages(f.mapping)
	}
	f.pages, f.bytes, f.mapping = nil, nil, nil
	f.lease.Release()
}

// Element is a number type for which every bit pattern is valid.
type Element interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// View returns the first n elements of b as a []T over the same memory. It returns an
// error if b is too short or not aligned for T. n must come from the caller, never
// unchecked from a file.
func View[T Element](b []byte, n int) ([]T, error) {
	var t T
	size := int(unsafe.Sizeof(t))
	if n < 0 || n > len(b)/size {
		return nil, fmt.Errorf("tiering: %d elements of %d bytes do not fit in %d bytes", n, size, len(b))
	}
	if n == 0 {
		return nil, nil
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%unsafe.Alignof(t) != 0 {
		return nil, fmt.Errorf("tiering: the memory is not aligned to %d bytes", unsafe.Alignof(t))
	}
	return unsafeView[T](b, n), nil
}

// unsafeView is View without checks.
func unsafeView[T Element](b []byte, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
