package segment

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
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
	lockPause   = 5 * time.Millisecond
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

	mu       sync.Mutex
	lock     io.Closer    // held from the first write on; protects temporary files
	open     map[ID]*File // segments in use by this process
	verified map[ID]bool  // written or completely verified by this process
	damaged  map[ID]bool  // found damaged by this process; the file may still exist
	synced   map[ID]bool  // synced by this process; the directory may not be
}

// OpenDir opens a directory, which need not exist. limit is the maximum size of all
// segments; 0 means 8 GiB, or a twelfth of the disk's free space if that is less.
// OpenDir removes temporary files of processes that were killed.
func OpenDir(fsys vfs.FS, base string, limit int64) (*Dir, error) {
	d := &Dir{
		fsys: fsys, base: base, limit: limit, spare: spareBytes, writer: fmt.Sprintf("%016x", rand.Uint64()),
		open: map[ID]*File{}, verified: map[ID]bool{}, damaged: map[ID]bool{}, synced: map[ID]bool{},
	}
	return d, errors.Join(d.sweep(segmentsDir), d.sweep(sessionsDir))
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

// Written returns the bytes of segments that this Dir has written.
func (d *Dir) Written() int64 { return d.written.Load() }

// segmentsPath returns the directory of segments.
func (d *Dir) segmentsPath() string { return vfs.Join(d.base, segmentsDir) }

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
	for end := time.Now().Add(lockTimeout); ; time.Sleep(lockPause) {
		lock, err := vfs.Lock(d.fsys, d.path(evictLock))
		if err == nil || !errors.Is(err, vfs.ErrLocked) || time.Now().After(end) {
			return lock, err
		}
	}
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
		if temporary {
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
	f, err := openFile(d.fsys, d.path(name))
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

// Info describes a segment in a directory.
type Info struct {
	ID     ID
	Name   string
	Bytes  int64
	Used   time.Time // time of last use; zero if unknown
	Pinned bool      // a session needs the segment
}

// List returns all segments in no particular order.
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

// files lists all segments without reading the sessions: Pinned is not set.
func (d *Dir) files() (list []Info, err error) {
	files, err := d.fsys.ReadDir(d.segmentsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		id, ok := idOf(f.Name)
		if !ok || f.IsDir {
			continue
		}
		c := Info{ID: id, Name: f.Name, Bytes: f.Size}
		c.Used, _ = vfs.LastUsed(d.fsys, d.path(f.Name))
		list = append(list, c)
	}
	return list, nil
}
