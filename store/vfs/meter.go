package vfs

import (
	"errors"
	"fmt"
)

// Meter counts the memory that readers allocate for what files say: headers, tables, and
// configuration. It is safe for concurrent use.
type Meter interface {
	// Reserve counts bytes before they are allocated. An error refuses them.
	Reserve(bytes int64) error
	// Release returns bytes that are not needed any more.
	Release(bytes int64)
	// Held returns the bytes that are reserved and not released.
	Held() int64
}

// Metered returns fsys with a meter. The readers of file formats reserve memory with Reserve
// before they allocate it. A nil meter returns fsys.
func Metered(fsys FS, m Meter) FS {
	if m == nil {
		return fsys
	}
	return &meteredFS{FS: fsys, meter: m}
}

// MeterOf returns the meter of a file system, or nil.
func MeterOf(fsys FS) Meter {
	if m, ok := fsys.(*meteredFS); ok {
		return m.meter
	}
	return nil
}

// ErrMemory reports that a meter refused memory.
var ErrMemory = errors.New("no memory for what the file holds")

// Reserve counts bytes for what the file at path says with the meter of fsys, if it has one.
// A refusal wraps ErrMemory and the reason, and names the file.
func Reserve(fsys FS, path string, bytes int64) error {
	m := MeterOf(fsys)
	if m == nil {
		return nil
	}
	if err := m.Reserve(bytes); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrMemory, err)
	}
	return nil
}

// Release returns bytes of Reserve.
func Release(fsys FS, bytes int64) {
	if m := MeterOf(fsys); m != nil {
		m.Release(bytes)
	}
}

// meteredFS implements Metered. It does not wrap files.
type meteredFS struct {
	FS
	meter Meter
}

func (m *meteredFS) confine(dir string) FS { return Metered(Confine(m.FS, dir), m.meter) }

func (m *meteredFS) openDirect(name string) (File, error) { return OpenDirect(m.FS, name) }

func (m *meteredFS) scratch(dir string) (File, error) { return Scratch(m.FS, dir) }
