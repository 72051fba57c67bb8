package tiering

import (
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"
)

// hugePage is the size from which a frame asks for huge pages: on x86-64 and on
// arm64 with 4 KiB pages one entry of the second page-table level maps 2 MiB.
const hugePage = 2 << 20

// Frame is a piece of zeroed, page-aligned memory outside Go's heap. It has one
// owner. Its bytes may be read and written from any goroutine, as the owner
// arranges; Free must come after the last of them.
type Frame struct {
	lease *Lease
	pages []byte // what the operating system gave, a whole number of pages
	bytes []byte // the first n bytes of it
	// mapping is what pages are in, where more addresses were asked for.
	mapping []byte
	freed   atomic.Bool
	// release is set where the pages are not the frame's own: it gives them back.
	release func()
}

// Adopt makes a frame of pages that somebody else mapped, of which the first n
// bytes are in use. They are never written here; release is called when the frame
// is freed. The frame can be resized within the pages.
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

// AllocRoom is Alloc for a frame that may grow up to room bytes with
// [Frame.Resize], in its place. Only what is used is memory and counts; the rest
// is addresses.
func AllocRoom(b *Budget, p Purpose, n, room int) (*Frame, error) {
	f, err := Alloc(b, p, 0)
	if err != nil {
		return nil, err
	}
	size, err := pageRound(max(n, room))
	if err == nil && size > 0 {
		f.pages, err = mapPages(size)
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

// Resize makes a frame of AllocRoom n bytes long. What is cut off goes back to the
// operating system and the budget at once; what is added is zero, or what the
// system left there. On an error, which is a *BudgetError when the budget
// refuses, nothing has changed.
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
		if err := f.lease.resize(int64(size)); err != nil {
			return err
		}
		if err := recommit(f.pages[before:size]); err != nil {
			_ = f.lease.resize(int64(before)) // giving back is never refused
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
		if err := f.lease.resize(int64(size)); err != nil {
			return err
		}
	}
	f.bytes = f.pages[:n:n]
	return nil
}

// Alloc reserves n bytes (rounded up to whole pages) and maps them. The error is
// a *BudgetError when the budget refuses, else what the operating system said.
func Alloc(b *Budget, p Purpose, n int) (*Frame, error) {
	return allocPages(b, p, n, mapPages)
}

// AllocForReads is Alloc for memory that a disk writes to by itself: it begins where a
// huge page does, if it is that large. To a disk every piece of memory that is in one
// piece is an entry of a list; in small pages a read of half a megabyte is 128 of
// them, and some disks have 256 for all reads that are under way.
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

// allocPages is Alloc with a way to get pages.
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
		return f, nil // nothing to map, but still to be freed once
	}
	if f.pages, err = get(size); err != nil {
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
		return 0, fmt.Errorf("a frame of %d bytes is impossible", n)
	}
	return (n + page - 1) / page * page, nil
}

// Bytes returns the frame's memory: exactly as many bytes as were asked for,
// nil after Free.
func (f *Frame) Bytes() []byte { return f.bytes }

// Floats views the whole frame as float32; up to three trailing bytes that make
// no whole number are left out.
func (f *Frame) Floats() []float32 {
	return unsafeView[float32](f.bytes, len(f.bytes)/4)
}

// Free returns the memory to the operating system and the lease to the budget.
// A second call panics: the addresses may already be somebody else's.
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

// Element is what memory may be viewed as: plain numbers, for which every bit
// pattern is a value.
type Element interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// View returns the first n elements of b as a []T over the same memory. It
// refuses an n that b does not hold and a start that is not aligned for T.
// The length is the caller's own n, never a figure read from a file.
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

// unsafeView is View for callers that know b to be aligned and long enough.
func unsafeView[T Element](b []byte, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}
