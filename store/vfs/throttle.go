package vfs

import (
	"os"
	"sync"
	"time"
)

// Throttled returns fsys with the speed of a slower device: all reads and writes together
// transfer at most bytesPerSecond (0 means no limit), and each operation has the given
// latency in addition. Latencies of concurrent operations overlap, as on a device with a
// deep queue, so prefetching pays off as on a real device.
func Throttled(fsys FS, bytesPerSecond int64, latency time.Duration) FS {
	return NewDevice(bytesPerSecond, latency).Throttle(fsys)
}

// NewDevice returns a simulated device with this speed; see Throttled.
func NewDevice(bytesPerSecond int64, latency time.Duration) *Device {
	return &Device{bytesPerSecond: bytesPerSecond, latency: latency, pause: sleep}
}

// Throttle returns fsys with the speed of d. All file systems of a device share its bus.
func (d *Device) Throttle(fsys FS) FS { return &throttledFS{FS: fsys, device: d} }

// Device models a storage device: the bus that all transfers share. Its methods are safe for
// concurrent use.
type Device struct {
	bytesPerSecond int64
	latency        time.Duration
	pause          func(time.Duration) // waits; tests on a fake clock use time.Sleep

	mu     sync.Mutex
	idleAt time.Time // when the bus has finished all scheduled transfers
}

// transfer blocks for the duration of a transfer of n bytes.
func (d *Device) transfer(n int) { d.pause(time.Until(d.schedule(n))) }

// schedule adds a transfer of n bytes to the bus and returns its completion time.
func (d *Device) schedule(n int) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.idleAt.Before(now) {
		d.idleAt = now
	}
	if d.bytesPerSecond > 0 {
		d.idleAt = d.idleAt.Add(time.Duration(float64(n) / float64(d.bytesPerSecond) * float64(time.Second)))
	}
	return d.idleAt.Add(d.latency)
}

// throttledFS implements Throttled.
type throttledFS struct {
	FS
	device *Device
}

func (t *throttledFS) Open(name string) (File, error) {
	return t.throttle(t.FS.Open(name))
}

func (t *throttledFS) openDirect(name string) (File, error) {
	return t.throttle(OpenDirect(t.FS, name))
}

func (t *throttledFS) Create(name string) (File, error) {
	return t.throttle(t.FS.Create(name))
}

func (t *throttledFS) scratch(dir string) (File, error) {
	return t.throttle(Scratch(t.FS, dir))
}

func (t *throttledFS) freeSpace(dir string) (int64, bool) { return FreeSpace(t.FS, dir) }

// throttle wraps an opened file.
func (t *throttledFS) throttle(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &throttledFile{File: f, device: t.device}, nil
}

func (t *throttledFS) confine(dir string) FS {
	return &throttledFS{FS: Confine(t.FS, dir), device: t.device}
}

// throttledFile is an open file of a throttledFS.
type throttledFile struct {
	File
	device *Device
}

func (f *throttledFile) ReadAt(p []byte, off int64) (int, error) {
	f.device.transfer(len(p))
	return f.File.ReadAt(p, off)
}

func (f *throttledFile) WriteAt(p []byte, off int64) (int, error) {
	f.device.transfer(len(p))
	return f.File.WriteAt(p, off)
}

// directHandle returns the handle of the underlying file.
func (f *throttledFile) directHandle() *os.File {
	if q, ok := f.File.(queueable); ok {
		return q.directHandle()
	}
	return nil
}

func (f *throttledFile) notBefore(n int) time.Time { return f.device.schedule(n) }
