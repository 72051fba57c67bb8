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
	// Suffix is how names of chunks end.
	Suffix = ".kv"
	// The directories of chunks and of sessions below that of a Dir.
	segmentsDir = "kv"
	sessionsDir = "sessions"

	lockSuffix = ".lock"
	evictLock  = "evict" + lockSuffix
	// lockTimeout is how long somebody else may take to make room or to save.
	lockTimeout = 10 * time.Second
	lockPause   = 5 * time.Millisecond
)

// Dir is a directory of chunks and sessions. Any number of processes may share
// it. Its methods may be called from any goroutine.
type Dir struct {
	fsys  vfs.FS
	base  string
	limit int64 // bytes of chunks; 0 = what suits the disk
	spare int64 // bytes of the disk that stay free

	writer  string // names this Dir in temporary files
	serial  atomic.Int64
	written atomic.Int64

	mu       sync.Mutex
	lock     io.Closer    // held from the first write on: temporaries of the writer are alive
	open     map[ID]*File // in use by this process
	verified map[ID]bool  // written, or verified as a whole, by this process
	damaged  map[ID]bool  // found damaged by this process, and perhaps there still
	synced   map[ID]bool  // known to survive power loss, once the directory does
}

// OpenDir opens a directory, which need not be there yet. It holds up to limit
// bytes of chunks; 0 stands for 8 GiB, or a twelfth of the disk's free space where
// that is less. What killed processes have left there is removed.
func OpenDir(fsys vfs.FS, base string, limit int64) (*Dir, error) {
	d := &Dir{
		fsys: fsys, base: base, limit: limit, spare: spareBytes, writer: fmt.Sprintf("%016x", rand.Uint64()),
		open: map[ID]*File{}, verified: map[ID]bool{}, damaged: map[ID]bool{}, synced: map[ID]bool{},
	}
	return d, errors.Join(d.sweep(segmentsDir), d.sweep(sessionsDir))
}

// Close gives the directory's lock back. Chunks must have been closed.
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

// Written returns how many bytes of chunks this Dir has written.
func (d *Dir) Written() int64 { return d.written.Load() }

// segmentsPath returns where the chunks are.
func (d *Dir) segmentsPath() string { return vfs.Join(d.base, segmentsDir) }

func (d *Dir) path(name string) string { return vfs.Join(d.segmentsPath(), name) }

// lockForWriting makes the directory of chunks ready for writing.
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

// makeDir makes a directory that survives power loss.
func makeDir(fsys vfs.FS, dir string) error {
	var missing []string // directories that get a new entry
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

// lockEviction takes the lock under which chunks are removed and sessions are
// saved, and waits a while for it.
func (d *Dir) lockEviction() (io.Closer, error) {
	for end := time.Now().Add(lockTimeout); ; time.Sleep(lockPause) {
		lock, err := vfs.Lock(d.fsys, d.path(evictLock))
		if err == nil || !errors.Is(err, vfs.ErrLocked) || time.Now().After(end) {
			return lock, err
		}
	}
}

// sweep removes temporary files and locks whose owners are dead.
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
			owner, _, _ = strings.Cut(mark, "-") // the writer
		case temporary:
			owner = name // a session
		case !locked:
			continue
		}
		lock, err := vfs.Lock(d.fsys, vfs.Join(dir, owner+lockSuffix))
		if err != nil {
			continue // it lives
		}
		if temporary {
			// What stays is in nobody's way, and the next one tries again.
			_ = d.fsys.Remove(vfs.Join(dir, f.Name))
		}
		if err := lock.Close(); err != nil {
			return err
		}
	}
	return nil
}

// name returns the name of a chunk's file: what comes before it, its first page
// and itself, so that those that may follow a text are found by their names.
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

// idOf returns the ID that the name of a chunk ends with.
func idOf(name string) (id ID, ok bool) {
	rest, ok := strings.CutSuffix(name, Suffix)
	at := strings.LastIndexByte(rest, '-')
	if !ok || at < 0 || len(rest) != 4*len(id)+2+8 {
		return id, false
	}
	n, err := hex.Decode(id[:], []byte(rest[at+1:]))
	return id, err == nil && n == len(id)
}

// acquire opens the chunk of that name, or finds it open.
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
		err := refuser(f.path)(16, "id", errFormat, "the file holds the chunk %s", f.name())
		return nil, errors.Join(err, f.file.Close())
	}
	f.dir = d
	d.open[id] = f
	return f, nil
}

// Info describes a chunk in a directory.
type Info struct {
	ID     ID
	Name   string
	Bytes  int64
	Used   time.Time // zero when nobody knows
	Pinned bool      // a session needs it
}

// List returns all chunks in no particular order.
func (d *Dir) List() ([]Info, error) {
	files, err := d.fsys.ReadDir(d.segmentsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pinned, err := d.pinned("")
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, f := range files {
		id, ok := idOf(f.Name)
		if !ok || f.IsDir {
			continue
		}
		c := Info{ID: id, Name: f.Name, Bytes: f.Size, Pinned: pinned[id]}
		c.Used, _ = vfs.LastUsed(d.fsys, d.path(f.Name))
		list = append(list, c)
	}
	return list, nil
}
