package vfs

import (
	"errors"
	"io"
	"sync"
)

// ErrLocked says that somebody else holds a lock, in this process or another.
var ErrLocked = errors.New("in use by somebody else")

// Lock takes the lock that the file name stands for, which at most one holder
// among all processes has, or fails at once with an error that wraps ErrLocked.
// Closing what it returns gives the lock back and removes the file. The lock of
// a process that dies is free again; its file may stay and does no harm.
//
// A file system that has no locks of its own is taken to belong to its user
// alone: there, every lock is free.
func Lock(fsys FS, name string) (io.Closer, error) {
	if l, ok := fsys.(locker); ok {
		return l.lock(name)
	}
	return unlocker(func() error { return nil }), nil
}

// locker is implemented by file systems that have locks.
type locker interface {
	lock(name string) (io.Closer, error)
}

// unlocker gives a lock back.
type unlocker func() error

func (u unlocker) Close() error { return u() }

// memLocks are the locks of a Mem; they are no files there.
type memLocks struct {
	mu   sync.Mutex
	held map[string]bool
}

func (m *Mem) lock(name string) (io.Closer, error) {
	l := &m.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	clean := cleanName(name)
	if l.held[clean] {
		return nil, wrap("lock", name, noOffset, ErrLocked)
	}
	if l.held == nil {
		l.held = map[string]bool{}
	}
	l.held[clean] = true
	return unlocker(func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, clean)
		return nil
	}), nil
}

func (f *faultyFS) lock(name string) (io.Closer, error) { return Lock(f.fsys, name) }

func (t *throttledFS) lock(name string) (io.Closer, error) { return Lock(t.FS, name) }

func (s subFS) lock(name string) (io.Closer, error) {
	full, err := s.resolve("lock", name)
	if err != nil {
		return nil, err
	}
	return Lock(s.fsys, full)
}
