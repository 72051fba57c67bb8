package vfs

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ErrLocked reports that a lock is held, by this process or another one.
var ErrLocked = errors.New("locked by another process or session")

// Lock acquires the lock with the given file name. At any time at most one caller in all
// processes holds the lock. If the lock is held, Lock returns an error that wraps
// ErrLocked; it does not wait. Close on the result releases the lock and removes the file.
// The system releases the locks of a process that dies; the leftover file does no harm.
//
// On a file system without locks, such as some network and FUSE file systems, Lock excludes the callers of this
// process only.
func Lock(fsys FS, name string) (io.Closer, error) {
	if l, ok := fsys.(locker); ok {
		return l.lock(name)
	}
	return unlocker(func() error { return nil }), nil
}

// lockPause is the time between two attempts of WaitLock.
const lockPause = 5 * time.Millisecond

// WaitLock is Lock, but it waits for a held lock, up to a timeout.
func WaitLock(fsys FS, name string, timeout time.Duration) (io.Closer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return pollLock(ctx, fsys, name, lockPause)
}

// pollLock is Lock, but it tries a held lock again after each pause, until ctx ends.
func pollLock(ctx context.Context, fsys FS, name string, pause time.Duration) (io.Closer, error) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		lock, err := Lock(fsys, name)
		if err == nil || !errors.Is(err, ErrLocked) {
			return lock, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// HeldLock returns the name of the lock that err reports as held, "" if it reports none.
func HeldLock(err error) string {
	var failed *IOError
	if !errors.Is(err, ErrLocked) || !errors.As(err, &failed) {
		return ""
	}
	return failed.Path
}

// AwaitFree waits until nobody holds a lock, looking once in each pause. It then holds the lock only for a moment. It
// returns the cause of ctx's end, or the error of a lock that cannot be tried.
func AwaitFree(ctx context.Context, fsys FS, name string, pause time.Duration) error {
	lock, err := pollLock(ctx, fsys, name, pause)
	switch {
	case errors.Is(err, ErrLocked): // until ctx ended
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	return lock.Close()
}

// locker is implemented by file systems with locks.
type locker interface {
	lock(name string) (io.Closer, error)
}

// unlocker releases a lock.
type unlocker func() error

func (u unlocker) Close() error { return u() }

// errNoLocks reports that a file system has no locks.
var errNoLocks = errors.New("the file system has no locks")

// processLocks are the locks of this process on file systems that have none.
var processLocks memLocks

// lockInProcess locks a file for this process, and closes it.
func lockInProcess(f *os.File, name string) (io.Closer, error) {
	full, err := filepath.Abs(name)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, wrap("lock", name, noOffset, err)
	}
	lock, err := processLocks.take(full, name)
	if err != nil {
		return nil, err
	}
	return processLock(func() error {
		_ = os.Remove(name) // if that fails, an empty file remains, which does no harm
		return lock.Close()
	}), nil
}

// processLock releases a lock that other processes do not see.
type processLock func() error

func (p processLock) Close() error { return p() }

// ProvesAbsence reports whether a lock shows that no other process holds it. On a file system without locks it does not.
func ProvesAbsence(lock io.Closer) bool {
	_, here := lock.(processLock)
	return !here
}

// memLocks holds the locks of a Mem, or of a process. They have no files.
type memLocks struct {
	mu   sync.Mutex
	held map[string]bool
}

func (m *Mem) lock(name string) (io.Closer, error) { return m.locks.take(cleanName(name), name) }

// take locks a path, whose name is for messages.
func (l *memLocks) take(clean, name string) (io.Closer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
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

// lock creates the file and locks all of it. The operating system releases the lock when the
// process dies. A holder removes the file before it unlocks it. A lock may therefore succeed on a
// file that was just removed; lock then tries again.
func (osFS) lock(name string) (io.Closer, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
		if err != nil {
			return nil, wrap("lock", name, noOffset, err)
		}
		if err := lockFile(f); errors.Is(err, errNoLocks) {
			return lockInProcess(f, name)
		} else if err != nil {
			f.Close()
			return nil, wrap("lock", name, noOffset, err)
		}
		if nameRefersTo(f, name) {
			return unlocker(func() error { return unlock(f, name) }), nil
		}
		f.Close()
	}
}

// nameRefersTo reports whether name still refers to the open file f.
func nameRefersTo(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(opened, named)
}

// unlock removes the file, if the system can remove open files, and releases the lock.
func unlock(f *os.File, name string) error {
	// If Remove fails, an empty unlocked file remains, which does no harm.
	_ = os.Remove(name)
	return wrap("unlock", name, noOffset, f.Close())
}
