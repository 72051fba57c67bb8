package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// directReader returns a handle for direct reads, nil if there are none: tmpfs and some network
// and stacked file systems have no O_DIRECT.
func (fsys osFS) directReader(name string) *os.File {
	flags := os.O_RDONLY | unix.O_DIRECT
	if fsys.own {
		flags |= noFollow
	}
	if f, err := os.OpenFile(name, flags, 0); err == nil {
		return f
	}
	return nil
}

func (fsys osFS) scratch(dir string) (File, error) {
	name := scratchName(dir)
	f, err := os.OpenFile(name, createFlags|os.O_EXCL, 0o600)
	if err != nil {
		return nil, wrap("create", name, noOffset, err)
	}
	if fsys.mapped.Enabled() {
		return unlink(fsys, &mappedFile{osFile: &osFile{f: f, name: name}}, name), nil
	}
	s := &scratchFile{directFile: directFile{File: &osFile{f: f, name: name}, close: func() error { return nil }}}
	if direct, err := os.OpenFile(name, os.O_RDWR|unix.O_DIRECT, 0); err == nil {
		s.direct, s.directWriter, s.close = direct, direct, direct.Close
	}
	return unlink(fsys, s, name), nil
}

// directRefused reports whether the system rejected a read because it was direct.
func directRefused(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// dropBehind advises the kernel to drop bytes that were just read or written from the page
// cache.
func dropBehind(f *os.File, off, n int64) {
	_ = unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED)
}
