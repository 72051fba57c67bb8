package vfs

import (
	"errors"
	"os"

	"github.com/edsrzf/mmap-go"
)

// ErrNotMapped is the answer of files that cannot be seen as memory: those in
// memory, throttled ones, and those with injected faults.
var ErrNotMapped = errors.New("the file cannot be mapped into memory")

// mapAlign is what mappings begin at a multiple of: a page of any system, and the
// granularity of Windows.
const mapAlign = 64 << 10

// Mapping is a part of a file seen as memory. Its bytes must not be written. If
// the file gets shorter, touching what is gone is a fault: who reads the bytes
// does so under debug.SetPanicOnFault.
type Mapping struct {
	region mmap.MMap
	bytes  []byte
}

// Map maps n bytes of a file from off on.
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

// Bytes returns the bytes that were asked for.
func (m *Mapping) Bytes() []byte { return m.bytes }

// Close ends the mapping; nobody may look at its bytes any more.
func (m *Mapping) Close() error {
	m.bytes = nil
	return m.region.Unmap()
}
