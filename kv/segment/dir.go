package segment

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// Suffix is the extension of segment files.
	Suffix = ".kv"
	// Subdirectories of a Dir for segments and for sessions.
	segmentsDir = "kv"
	sessionsDir = "sessions"

	lockSuffix = ".lock"
	evictLock  = "evict" + lockSuffix
	// lockTimeout limits the wait for another process that evicts segments or saves a
	// session.
	lockTimeout = 10 * time.Second
)

// Dir is a directory of segments and sessions. Any number of processes may share it.
// Any goroutine may call its methods.
type Dir struct {
	fsys  vfs.FS
	base  string
	limit int64 // bytes of segments; 0 = depends on the disk
	spare int64 // bytes of the disk to leave free

	writer  string // identifies this Dir in the names of temporary files
	serial  atomic.Int64
	written atomic.Int64
	allow   func(bytes, leave int64) error // see LimitWrites
	admit   func(bytes int) (done func())  // see AdmitReads

	mu       sync.Mutex
	lock     io.Closer    // held from the first write on; protects temporary files
	open     map[ID]*File // segments in use by this process
	verified map[ID]bool  // written or completely verified by this process
	damaged  map[ID]bool  // found damaged by this process; the file may still exist
	synced   map[ID]bool  // synced by this process; the directory may not be
}

// OpenDir opens a directory, which need not exist. limit is the maximum size of all
// segments; 0 means 8 GiB, or a twelfth of the disk's free space if that is less.
// OpenDir removes temporary files of processes that were killed. It returns an error that
// wraps vfs.ErrNotPrivate or vfs.ErrLink if [CheckDir] refuses the directory.
func OpenDir(fsys vfs.FS, base string, limit int64) (*Dir, error) {
	d := &Dir{
		fsys: fsys, base: base, limit: limit, spare: spareBytes, writer: fmt.Sprintf("%016x", rand.Uint64()),
		open: map[ID]*File{}, verified: map[ID]bool{}, damaged: map[ID]bool{}, synced: map[ID]bool{},
	}
	if err := CheckDir(fsys, base); err != nil {
		return d, err
	}
	return d, errors.Join(d.sweep(segmentsDir), d.sweep(sessionsDir))
}

// CheckDir refuses a directory that other users may change, and symbolic links where a Dir makes
// directories in it.
func CheckDir(fsys vfs.FS, base string) error {
	if err := vfs.CheckPrivate(fsys, base); err != nil {
		return err
	}
	for _, sub := range []string{segmentsDir, sessionsDir} {
		dir := vfs.Join(base, sub)
		if err := errors.Join(vfs.CheckNoLink(fsys, dir), vfs.CheckPrivate(fsys, dir)); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the directory's lock. All segments must be closed.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	lock := d.lock
	d.lock = nil
	return lock.Close()
}

// LimitWrites makes the Dir call allow before it writes a segment of so many bytes, which must leave
// others; see [Store.Leaving]. An error of allow is that of Write, and nothing is written or evicted.
func (d *Dir) LimitWrites(allow func(bytes, leave int64) error) { d.allow = allow }

// AdmitReads makes the Dir call admit before it reads a header or verifies a segment, and done
// after it. Admit does not wait. Pages that are read from a LayerRun are the reader's to admit.
func (d *Dir) AdmitReads(admit func(bytes int) (done func())) { d.admit = admit }

// admitted reads b with the admission of the directory, which may be nil.
func (d *Dir) admitted(r io.ReaderAt, path string, b []byte, off int64) error {
	defer d.admission(len(b))()
	return readFull(r, path, b, off)
}

// admission admits a read, and returns what ends it. d may be nil.
func (d *Dir) admission(bytes int) (done func()) {
	if d == nil || d.admit == nil {
		return func() {}
	}
	return d.admit(bytes)
}

// Written returns the bytes of segments that this Dir has written.
func (d *Dir) Written() int64 { return d.written.Load() }

// segmentsPath returns the directory of segments.
func (d *Dir) segmentsPath() string { return vfs.Join(d.base, segmentsDir) }

// sessionsPath returns the directory of sessions.
func (d *Dir) sessionsPath() string { return vfs.Join(d.base, sessionsDir) }

func (d *Dir) path(name string) string { return vfs.Join(d.segmentsPath(), name) }

// lockForWriting creates the directory of segments and takes this writer's lock,
// which protects its temporary files from other processes.
func (d *Dir) lockForWriting() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock != nil {
		return nil
	}
	if err := makeDir(d.fsys, d.segmentsPath()); err != nil {
		return err
	}
	if err := CheckDir(d.fsys, d.base); err != nil {
		return err
	}
	lock, err := vfs.Lock(d.fsys, d.path(d.writer+lockSuffix))
	if err == nil {
		d.lock = lock
	}
	return err
}

// makeDir creates a directory that survives power loss.
func makeDir(fsys vfs.FS, dir string) error {
	var missing []string // parents of new directories
	for at := dir; ; {
		if _, err := fsys.Stat(at); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parent, base := vfs.Split(at)
		if parent == at || base == "" {
			break
		}
		missing = append(missing, parent)
		at = parent
	}
	if len(missing) == 0 {
		return nil
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	for _, parent := range missing {
		if err := fsys.SyncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

// lockEviction takes the lock for removing segments and saving sessions. It waits up
// to lockTimeout.
func (d *Dir) lockEviction() (io.Closer, error) {
	return vfs.WaitLock(d.fsys, d.path(evictLock), lockTimeout)
}

// sweep removes temporary files and locks of processes that have ended.
func (d *Dir) sweep(sub string) error {
	dir := vfs.Join(d.base, sub)
	files, err := d.fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := vfs.SweepScratch(d.fsys, dir); err != nil {
		return err
	}
	for _, f := range files {
		name, mark, temporary := strings.Cut(f.Name, vfs.TempMark)
		owner, locked := strings.CutSuffix(f.Name, lockSuffix)
		switch {
		case temporary && sub == segmentsDir:
			owner, _, _ = strings.Cut(mark, "-") // owned by a writer
		case temporary:
			owner = name // owned by a session lock
		case !locked:
			continue
		}
		lock, err := vfs.Lock(d.fsys, vfs.Join(dir, owner+lockSuffix))
		if err != nil {
			continue // its owner is alive
		}
		if temporary && vfs.ProvesAbsence(lock) {
			// A file that cannot be removed does no harm; the next sweep retries.
			_ = d.fsys.Remove(vfs.Join(dir, f.Name))
		}
		if err := lock.Close(); err != nil {
			return err
		}
	}
	return nil
}

// name returns the file name of a segment: parent, hash of the first page's tokens,
// and ID. Lookup finds the candidates that continue a sequence by this prefix.
func (h *header) name() string {
	return segmentName(h.parent, h.tokens[:h.layout.PageTokens], h.id)
}

func segmentName(parent ID, firstPage []int32, id ID) string {
	return namePrefix(parent, firstPage) + id.String() + Suffix
}

func namePrefix(parent ID, firstPage []int32) string {
	sum := store.Sum64(idSeedLow, appendTokens(nil, firstPage))
	var first [4]byte
	binary.LittleEndian.PutUint32(first[:], uint32(sum))
	return parent.String() + "-" + hex.EncodeToString(first[:]) + "-"
}

// idOf parses the ID at the end of a segment's file name.
func idOf(name string) (id ID, ok bool) {
	rest, ok := strings.CutSuffix(name, Suffix)
	at := strings.LastIndexByte(rest, '-')
	if !ok || at < 0 || len(rest) != 4*len(id)+2+8 {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(rest[at+1:]))
	return id, err == nil && n == len(id)
}

// acquire opens the segment with a name, or returns the File that is already open.
func (d *Dir) acquire(name string, id ID) (*File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.open[id]; f != nil {
		return f.Retain(), nil
	}
	f, err := d.openFile(d.path(name))
	if err != nil {
		return nil, err
	}
	if f.name() != name {
		err := refuser(f.path)(16, "id", errFormat, "the file holds segment %s", f.name())
		return nil, errors.Join(err, f.file.Close())
	}
	f.dir = d
	d.open[id] = f
	return f, nil
}

// Info describes a segment in a directory, or a state whose segment is gone: a crash between two removals leaves one, and
// so does a process that writes a state while another removes its segment.
type Info struct {
	ID     ID
	Name   string
	Bytes  int64     // with the state behind it
	Used   time.Time // time of last use; zero if unknown
	Pinned bool      // a session needs the segment
}

// List returns all segments, and the states without one, in no particular order.
func (d *Dir) List() ([]Info, error) {
	list, err := d.files()
	if len(list) == 0 || err != nil {
		return nil, err
	}
	pinned, err := d.pinned("")
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].Pinned = pinned[list[i].ID]
	}
	return list, nil
}

// files is List without reading the sessions: Pinned is not set.
func (d *Dir) files() (list []Info, err error) {
	files, err := d.fsys.ReadDir(d.segmentsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	states := map[string]int64{}
	for _, f := range files {
		if id, ok := strings.CutSuffix(f.Name, stateSuffix); ok {
			states[id] = f.Size
		}
	}
	add := func(id ID, name string, bytes int64) {
		c := Info{ID: id, Name: name, Bytes: bytes}
		c.Used, _ = vfs.LastUsed(d.fsys, d.path(name))
		list = append(list, c)
	}
	for _, f := range files {
		if id, ok := idOf(f.Name); ok && !f.IsDir {
			add(id, f.Name, f.Size+states[id.String()])
			delete(states, id.String())
		}
	}
	for _, f := range files {
		if id, ok := stateSegment(f.Name); ok {
			if bytes, alone := states[id.String()]; alone { // no segment is before it
				add(id, f.Name, bytes)
			}
		}
	}
	return list, nil
}

// Any reports whether a directory has segments, perhaps of other models.
func Any(fsys vfs.FS, base string) bool {
	files, err := fsys.ReadDir(vfs.Join(base, segmentsDir))
	return err == nil && slices.ContainsFunc(files, func(f vfs.Info) bool { return strings.HasSuffix(f.Name, Suffix) })
}
