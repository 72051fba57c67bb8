package vfs

import "golang.org/x/sys/unix"

// cacheProbeStep is how far apart the places are that Cached looks at.
const cacheProbeStep = 4 << 20

// Cached reports whether n bytes of a file from off on are likely to be in the
// system's page cache: all of some places that it looks at are. It does not read
// from the disk, and says no where the system does not tell.
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

// cachedAt reports whether a byte can be read without waiting for the disk. Unlike
// mincore, which tells owners of a file alone, a read tells everybody.
func (f *osFile) cachedAt(off int64) bool {
	var one [1]byte
	n, err := unix.Preadv2(int(f.f.Fd()), [][]byte{one[:]}, off, unix.RWF_NOWAIT)
	return n == 1 && err == nil
}
