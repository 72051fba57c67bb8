package vfs

import "golang.org/x/sys/unix"

// cacheProbeStep is the distance between the offsets that Cached probes.
const cacheProbeStep = 4 << 20

// Cached reports whether the n bytes of f from off are likely to be in the page cache. It
// probes a sample of offsets and does not read from the disk. It returns false if the
// system does not support the probe.
func Cached(f File, off, n int64) bool {
	o, ok := f.(*osFile)
	if !ok || n <= 0 {
		return false
	}
	for at := off; at < off+n; at += cacheProbeStep {
		if !o.cachedAt(at) {
			return false
		}
	}
	return o.cachedAt(off + n - 1)
}

// cachedAt reports whether the byte at off can be read without disk access. It uses a
// non-blocking read: mincore answers only the owner of a file.
func (f *osFile) cachedAt(off int64) bool {
	var one [1]byte
	n, err := unix.Preadv2(int(f.f.Fd()), [][]byte{one[:]}, off, unix.RWF_NOWAIT)
	return n == 1 && err == nil
}
