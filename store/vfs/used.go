package vfs

import (
	"os"
	"time"
)

// Touch notes that a file was used now, for caches that give up what was not
// used for longest. The note needs to survive nothing. File systems that keep
// none do nothing.
func Touch(fsys FS, name string) error {
	if t, ok := fsys.(toucher); ok {
		return t.touch(name, time.Now())
	}
	return nil
}

// Used returns when a file was written or touched last. ok is false where the
// file system does not know.
func Used(fsys FS, name string) (at time.Time, ok bool) {
	if t, is := fsys.(toucher); is {
		return t.used(name)
	}
	return time.Time{}, false
}

// toucher is implemented by file systems that note when files are used.
type toucher interface {
	touch(name string, at time.Time) error
	used(name string) (at time.Time, ok bool)
}

func (osFS) touch(name string, at time.Time) error {
	return wrap("touch", name, noOffset, os.Chtimes(name, time.Time{}, at))
}

func (osFS) used(name string) (time.Time, bool) {
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
		m.stamp(node)
	}
	return err
}

// stamp notes a use. A clock that counts tells any two uses apart. mu is held.
func (m *Mem) stamp(node *memNode) {
	m.uses++
	node.used = m.uses
}

func (m *Mem) used(name string) (time.Time, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("stat", name, false)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(node.used, 0), true
}

func (f *faultyFS) touch(name string, _ time.Time) error {
	if err := f.check(OpTouch, name, noOffset, 0); err != nil {
		return err
	}
	return Touch(f.fsys, name)
}

func (f *faultyFS) used(name string) (time.Time, bool) { return Used(f.fsys, name) }

func (t *throttledFS) touch(name string, _ time.Time) error { return Touch(t.FS, name) }

func (t *throttledFS) used(name string) (time.Time, bool) { return Used(t.FS, name) }

func (s subFS) touch(name string, _ time.Time) error {
	return s.onPath("touch", name, func(full string) error { return Touch(s.fsys, full) })
}

func (s subFS) used(name string) (time.Time, bool) {
	full, err := s.resolve("stat", name)
	if err != nil {
		return time.Time{}, false
	}
	return Used(s.fsys, full)
}
