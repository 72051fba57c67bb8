package vfs

import (
	"errors"
	"os"

	"github.com/edsrzf/mmap-go"
)

// ErrNotMapped reports that a file cannot be mapped: files in memory, throttled files and
// files with injected faults.
var ErrNotMapped = errors.New("the file cannot be mapped into memory")

// mapAlign is the alignment of mappings: a multiple of the page size of every system and
// the allocation granularity of Windows.
const mapAlign = 64 << 10

// Mapping is a read-only memory mapping of a part of a file. If the file is truncated,
// access to the lost pages faults: readers must run under debug.SetPanicOnFault.
type Mapping struct {
	region mmap.MMap
	bytes  []byte
	skip   int // bytes of region before bytes
}

// Map maps n bytes of f from off.
func Map(f File, off, n int64) (*Mapping, error) {
	o, ok := f.(*osFile)
	if !ok {
		return nil, wrap("map", f.Name(), off, ErrNotMapped)
	}
	size, err := o.Size()
	if err != nil {
		return nil, err
	}
	m, err := mapPart(o, off, n, size)
	if err != nil {
		return nil, err
	}
	return &m, nil
}

// mapPart maps n bytes of a file of a known size from off.
func mapPart(f *osFile, off, n, size int64) (Mapping, error) {
	if off < 0 || n <= 0 || off > size || n > size-off {
		return Mapping{}, wrap("map", f.name, off, os.ErrInvalid)
	}
	skip := off % mapAlign
	all, err := mmap.MapRegion(f.f, int(n+skip), mmap.RDONLY, 0, off-skip)
	if err != nil {
		return Mapping{}, wrap("map", f.name, off, err)
	}
	return Mapping{region: all, bytes: all[skip : skip+n : skip+n], skip: int(skip)}, nil
}

// Bytes returns the mapped bytes.
func (m *Mapping) Bytes() []byte { return m.bytes }

// NextEvicted returns the first offset in [from, to) of Bytes whose page the system has taken
// out of memory, so that the next access reads it from the disk again. found is false if all
// pages are in memory, or if the system does not report it, as for files of another owner.
func (m *Mapping) NextEvicted(from, to int) (at int, found bool) {
	page := os.Getpagesize()
	lo := m.skip + max(0, from)
	at, found = firstAbsentPage(m.region, lo/page*page, m.skip+min(to, len(m.bytes)))
	return max(at-m.skip, from), found
}

// Populate reads the pages of [from, to) of Bytes that are not in memory, in one request where
// the system has one. Otherwise, and where a page cannot be read, the access to it reads it.
func (m *Mapping) Populate(from, to int) {
	page := os.Getpagesize()
	lo, hi := m.skip+max(0, from), m.skip+min(to, len(m.bytes))
	if lo < hi {
		populate(m.region[lo/page*page : hi])
	}
}

// Close removes the mapping. The bytes must not be accessed afterwards.
func (m *Mapping) Close() error {
	m.bytes = nil
	return m.region.Unmap()
}

// FaultAddress returns the address of a recovered page fault. It panics again if there was a
// panic for any other reason.
func FaultAddress(reason any) (addr uintptr, faulted bool) {
	if reason == nil {
		return 0, false
	}
	if err, ok := reason.(error); ok {
		var fault interface{ Addr() uintptr }
		if errors.As(err, &fault) {
			return fault.Addr(), true
		}
	}
	panic(reason)
}
