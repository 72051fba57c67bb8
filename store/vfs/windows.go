package vfs

import (
	"errors"
	"io"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// MappedReads switches files of the operating system from direct reads to mapped reads. A mapped
// read maps a window of the file, populates it, copies the bytes and removes the mapping. The
// bytes remain in the page cache as long as the system has memory for them, so that repeated
// reads are faster than the disk while there is such memory, and a little slower otherwise.
type MappedReads struct{ enabled atomic.Bool }

// Enable makes files that [OpenDirect] and [Scratch] open from now on use mapped reads.
func (m *MappedReads) Enable() { m.enabled.Store(true) }

// Enabled reports whether files use mapped reads.
func (m *MappedReads) Enabled() bool { return m != nil && m.enabled.Load() }

// Windows are limited, because the process holds them in addition to the destinations of reads.
const (
	windowBytes = 256 << 10
	maxWindows  = 4
)

// MappedBytes is the most memory that all mapped reads of the process hold at a time.
const MappedBytes = maxWindows * (windowBytes + mapAlign)

// openWindows has an element for each window that is open.
var openWindows = make(chan struct{}, maxWindows)

// WithMappedReads returns a file system whose files use mapped reads while m is enabled, if
// fsys is one of the operating system or of an [Embedded] file. Others are returned unchanged.
func WithMappedReads(fsys FS, m *MappedReads) FS {
	switch f := fsys.(type) {
	case osFS:
		f.mapped = m
		return f
	case ioFS:
		if data, ok := f.fsys.(*embeddedFS); ok {
			return embeddedReads{ioFS: f, data: data, mapped: m}
		}
	case *meteredFS:
		return &meteredFS{WithMappedReads(f.FS, m), f.meter}
	case *faultyFS:
		return &faultyFS{fsys: WithMappedReads(f.fsys, m), faults: f.faults}
	}
	return fsys
}

// ReadsMapped reports whether files of a file system use mapped reads.
func ReadsMapped(fsys FS) bool {
	m, ok := fsys.(mapper)
	return ok && m.readsMapped()
}

// mapper is implemented by file systems with mapped reads and by wrappers.
type mapper interface{ readsMapped() bool }

func (fsys osFS) readsMapped() bool { return fsys.mapped.Enabled() }

func (f *faultyFS) readsMapped() bool { return ReadsMapped(f.fsys) }

func (t *throttledFS) readsMapped() bool { return ReadsMapped(t.FS) }

func (m *meteredFS) readsMapped() bool { return ReadsMapped(m.FS) }

// mappedFile is a file with mapped reads.
type mappedFile struct {
	*osFile
	mu     sync.RWMutex // Close waits for reads: they use the file's number, which would become another file's
	closed bool
}

// ReadAt maps one window after the other. Reads at the same time use other windows.
func (f *mappedFile) ReadAt(p []byte, off int64) (n int, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return 0, wrap("read", f.name, off, os.ErrClosed)
	}
	size, err := f.sizeNow()
	if err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, wrap("read", f.name, off, os.ErrInvalid)
	}
	inside := int(max(0, min(int64(len(p)), size-off)))
	for n < inside {
		step := min(windowBytes, inside-n)
		if err := f.readWindow(p[n:n+step], off+int64(n), size); err != nil {
			return n, err
		}
		n += step
	}
	if n < len(p) {
		return n, wrap("read", f.name, off+int64(n), io.EOF)
	}
	return n, nil
}

// Close closes the file after the reads in flight.
func (f *mappedFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.osFile.Close()
}

// sizeNow is Size without an allocation, where the system permits it.
func (f *mappedFile) sizeNow() (int64, error) {
	if stamp, ok, err := f.fileStamp(); ok && err == nil {
		return stamp.Size, nil
	}
	return f.Size()
}

// readWindow fills p through one window.
func (f *mappedFile) readWindow(p []byte, off, size int64) (err error) {
	openWindows <- struct{}{}
	defer func() { <-openWindows }()
	w, err := mapPart(f.osFile, off, int64(len(p)), size)
	if err != nil {
		return err
	}
	populate(w.region)
	if !copyMapped(p, w.bytes) {
		err = wrap("read", f.name, off, errShrunk)
	}
	return errors.Join(err, wrap("unmap", f.name, off, w.Close()))
}

// errShrunk reports bytes that a mapping has lost.
var errShrunk = errors.New("the file has become shorter, or the disk cannot read it")

// copyMapped copies from a mapping. ok is false if some of its pages cannot be read.
func copyMapped(dst, src []byte) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if _, faulted := FaultAddress(recover()); faulted {
			ok = false
		}
	}()
	copy(dst, src)
	return true
}

// A comparison reads samples of a file, several at a time as the engine does.
const (
	samples     = 4
	sampleBytes = 64 << 10
	comparisons = 3
	// minGain is how much faster mapped reads must be: they take a processor from other work.
	minGain = 1.25
)

// MappedIsFaster reports whether repeated mapped reads of a file are faster than direct reads.
// That is so if the disk is slower than memory and the page cache holds the file, or has room for
// it: room is how many bytes more it may take. Otherwise the file is not read.
func MappedIsFaster(fsys FS, name string, room int64) bool {
	direct, err := OpenDirect(WithMappedReads(fsys, nil), name)
	if err != nil {
		return false
	}
	defer direct.Close()
	d, ok := direct.(*directFile)
	if !ok || d.direct == nil {
		return false
	}
	mapped := &mappedFile{osFile: d.File.(*osFile)}
	size, err := d.Size()
	if err != nil || size < 2*comparisons*samples*sampleBytes {
		return false
	}
	cached := Cached(mapped.osFile, 0, size)
	if !cached && size > room {
		return false
	}
	memory := AlignDirect(make([]byte, samples*sampleBytes+DirectAlign))
	fastest := [2]time.Duration{math.MaxInt64, math.MaxInt64}
	step := size / (2 * comparisons) / DirectAlign * DirectAlign
	for i := range int64(2 * comparisons) {
		way := []File{d, mapped}[i%2]
		took, err := timeSamples(way, i*step, memory)
		if i%2 == 1 && !cached && err == nil { // that was the first read of these bytes
			took, err = timeSamples(way, i*step, memory)
		}
		if err != nil {
			return false
		}
		fastest[i%2] = min(fastest[i%2], took)
	}
	return minGain*float64(fastest[1]) < float64(fastest[0])
}

// timeSamples returns the time of reading samples from off on at the same time.
func timeSamples(f File, off int64, memory []byte) (time.Duration, error) {
	var (
		readers sync.WaitGroup
		failed  [samples]error
	)
	begin := time.Now()
	for i := range samples {
		readers.Go(func() {
			_, failed[i] = f.ReadAt(memory[i*sampleBytes:][:sampleBytes], off+int64(i)*sampleBytes)
		})
	}
	readers.Wait()
	return time.Since(begin), errors.Join(failed[:]...)
}

// embeddedReads is a file system whose one file is embedded in the program. Mapped reads map
// windows of the program's own file.
type embeddedReads struct {
	ioFS
	data   *embeddedFS
	mapped *MappedReads
}

func (f embeddedReads) readsMapped() bool { return f.mapped.Enabled() }

func (f embeddedReads) openDirect(name string) (File, error) {
	opened, err := f.Open(name)
	if err != nil || !f.mapped.Enabled() {
		return opened, err
	}
	at := f.data.find()
	if at.path == "" {
		return opened, nil
	}
	program, err := os.Open(at.path)
	if err != nil {
		return nil, errors.Join(wrap("open", at.path, noOffset, err), opened.Close())
	}
	return &embeddedMapped{File: opened, program: &mappedFile{osFile: &osFile{f: program, name: at.path}}, from: at.off, size: int64(len(f.data.data))}, nil
}

// embeddedMapped reads an embedded file through windows of the program's file.
type embeddedMapped struct {
	File
	program    *mappedFile
	from, size int64 // range of the program's file
}

func (f *embeddedMapped) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > f.size {
		return f.File.ReadAt(p, off)
	}
	inside := min(int64(len(p)), f.size-off)
	n, err := f.program.ReadAt(p[:inside], f.from+off)
	if err == nil && n < len(p) {
		err = wrap("read", f.Name(), off+int64(n), io.EOF)
	}
	return n, err
}

func (f *embeddedMapped) Close() error { return errors.Join(f.program.Close(), f.File.Close()) }
