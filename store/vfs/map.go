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
	if off < 0 || n <= 0 || off > size || n > size-off {
		return nil, wrap("map", o.name, off, os.ErrInvalid)
	}
	skip := off % mapAlign
	all, err := mmap.MapRegion(o.f, int(n+skip), mmap.RDONLY, 0, off-skip)
	if err != nil {
		return nil, wrap("map", o.name, off, err)
	}
	return &Mapping{region: all, bytes: all[skip : skip+n : skip+n]}, nil
}

// Bytes returns the mapped bytes.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Close removes the mapping. The bytes must not be accessed afterwards.
func (m *Mapping) Close() error {
	m.bytes = nil
	return m.region.Unmap()
}
