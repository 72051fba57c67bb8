package vfs

import (
	"os"
	"time"
)

// Touch records that a file is used now, for caches that evict the least recently used
// file. The record need not survive a crash. Touch does nothing on file systems without
// such records.
func Touch(fsys FS, name string) error {
	return SetModified(fsys, name, time.Now())
}

// SetModified sets the time at which a file was last written. It does nothing on file systems without such times.
func SetModified(fsys FS, name string, at time.Time) error {
	if t, ok := fsys.(useTracker); ok {
		return t.touch(name, at)
	}
	return nil
}

// LastUsed returns when a file was last written or touched. ok is false if the file system
// does not know.
func LastUsed(fsys FS, name string) (at time.Time, ok bool) {
	if t, is := fsys.(useTracker); is {
		return t.lastUsed(name)
	}
	return time.Time{}, false
}

// useTracker is implemented by file systems that record when files are used.
type useTracker interface {
	touch(name string, at time.Time) error
	lastUsed(name string) (at time.Time, ok bool)
}

func (osFS) touch(name string, at time.Time) error {
	return wrap("touch", name, noOffset, os.Chtimes(name, time.Time{}, at))
}

func (osFS) lastUsed(name string) (time.Time, bool) {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime(), true
}

func (m *Mem) touch(name string, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("touch", name, false)
	if err == nil {
		m.noteUse(node)
	}
	return err
}

// noteUse records a use. A counter serves as the clock, so that any two uses differ. The
// caller holds mu.
func (m *Mem) noteUse(node *memNode) {
	m.useClock++
	node.lastUse = m.useClock
}

func (m *Mem) lastUsed(name string) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("stat", name, false)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(node.lastUse, 0), true
}

func (f *faultyFS) touch(name string, at time.Time) error {
	if err := f.check(OpTouch, name, noOffset, 0); err != nil {
		return err
	}
	return SetModified(f.fsys, name, at)
}

func (f *faultyFS) lastUsed(name string) (time.Time, bool) { return LastUsed(f.fsys, name) }

func (t *throttledFS) touch(name string, at time.Time) error { return SetModified(t.FS, name, at) }

func (t *throttledFS) lastUsed(name string) (time.Time, bool) { return LastUsed(t.FS, name) }

func (s subFS) touch(name string, at time.Time) error {
	return s.onPath("touch", name, func(full string) error { return SetModified(s.fsys, full, at) })
}

func (s subFS) lastUsed(name string) (time.Time, bool) {
	full, err := s.resolve("stat", name)
	if err != nil {
		return time.Time{}, false
	}
	return LastUsed(s.fsys, full)
}
