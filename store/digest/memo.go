package digest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// memoName is the file of a memo in its directory.
	memoName = "hashes"
	// freshName is the file of the hashes of files that had just changed. Such a file may have
	// changed again, with the same stamp.
	freshName  = "hashes-fresh"
	lockSuffix = ".lock"
	// maxEntries limits a memo. The model with the most files has a few hundred.
	maxEntries = 1024

	memoMagic    = "LLMRHASH"
	memoVersion  = 1
	headerBytes  = 8 + 4 + 4 // magic, version, number of entries
	entryBytes   = 6*8 + len(Sum{})
	sumBytes     = 8
	checksumSeed = 0x6c6c6d72756e5048
)

// Memo remembers hashes in a file of a directory. Several processes and goroutines may use
// it. The zero Memo and a nil Memo have no directory and remember hashes for the process.
type Memo struct {
	fsys vfs.FS
	dir  string
}

// NewMemo returns the memo of a directory, which need not exist.
func NewMemo(fsys vfs.FS, dir string) *Memo { return &Memo{fsys, dir} }

// entry is a remembered hash.
type entry struct {
	sum Sum
	at  int64 // when it was computed; nanoseconds since 1970
}

// ofProcess holds the hashes that this process has computed or read from a memo, by the name of
// the memo's file.
var ofProcess = struct {
	sync.Mutex
	known map[string]map[vfs.Stamp]entry
}{known: map[string]map[vfs.Stamp]entry{memoName: {}, freshName: {}}}

// Knows reports whether the memo has the hashes of all files.
func (m *Memo) Knows(fsys vfs.FS, paths []string) bool {
	for _, path := range paths {
		_, err := withFile(fsys, path, func(f vfs.File) (d File, err error) {
			stamp, known, err := vfs.StampOf(f)
			if err == nil && known {
				_, known = m.find(stamp)
			}
			if !known {
				err = errors.Join(err, errUnknown)
			}
			return d, err
		})
		if err != nil {
			return false
		}
	}
	return true
}

// errUnknown reports a file whose hash the memo does not have.
var errUnknown = errors.New("the hash is not known")

// Of returns the hash of a file. It reads the file only if the memo has no hash for the
// file's current stamp. It calls progress, which may be nil, with the number of bytes of each
// read. A memo that cannot be read or written only costs time.
func (m *Memo) Of(ctx context.Context, fsys vfs.FS, path string, progress func(n int64)) (File, error) {
	return withFile(fsys, path, func(f vfs.File) (File, error) {
		stamp, known, err := vfs.StampOf(f)
		if err != nil {
			return File{}, err
		}
		if known {
			if sum, ok := m.find(stamp); ok {
				return File{sum, stamp.Size, stamp}, nil
			}
		}
		d, settled, err := read(ctx, f, progress)
		if err == nil && known {
			m.add(nameFor(settled), d.Stamp, entry{d.Sum, time.Now().UnixNano()})
		}
		return d, err
	})
}

// setBack is how far Written sets the time of a file back: more than file systems round times by.
const setBack = time.Minute

// errUnsettled reports a file system that keeps no time that a program sets.
var errUnsettled = errors.New("the file system sets no times")

// Written remembers the hash of a file that the caller has just written, so that it is not read for it. It sets the time
// of modification back: every later write sets it forward, and shows, also within the same tick of the clock. It
// remembers nothing about a file that has another size.
func (m *Memo) Written(fsys vfs.FS, path string, sum Sum, size int64) error {
	begin := time.Now()
	if err := vfs.SetModified(fsys, path, begin.Add(-setBack)); err != nil {
		return err
	}
	_, err := withFile(fsys, path, func(f vfs.File) (d File, err error) {
		stamp, err := vfs.StampForReading(f)
		switch {
		case err != nil || stamp == (vfs.Stamp{}):
			return d, err
		case stamp.Size != size:
			return d, fmt.Errorf("%s: %w", f.Name(), store.ErrChanged)
		case stamp.Modified > begin.Add(-setBack/2).UnixNano():
			return d, fmt.Errorf("%s: %w", f.Name(), errUnsettled)
		}
		m.add(memoName, stamp, entry{sum, begin.UnixNano()})
		return d, nil
	})
	return err
}

// find returns the remembered hash for a stamp.
func (m *Memo) find(stamp vfs.Stamp) (Sum, bool) {
	ofProcess.Lock()
	defer ofProcess.Unlock()
	if e, ok := ofProcess.known[memoName][stamp]; ok {
		return e.sum, true
	}
	e, ok := m.load(memoName)[stamp]
	if ok {
		remember(ofProcess.known[memoName], stamp, e)
	}
	return e.sum, ok
}

// nameFor returns the name of the memo's file for the hash of a file that has settled or not.
func nameFor(settled bool) string {
	if settled {
		return memoName
	}
	return freshName
}

// similar returns the remembered hash for a file that has the same device, inode, size and time
// of modification as a stamp. The time of change may differ: programs that set the time of
// modification, and renames, change it.
func (m *Memo) similar(name string, stamp vfs.Stamp) (sum Sum, ok bool) {
	ofProcess.Lock()
	defer ofProcess.Unlock()
	for _, known := range []map[vfs.Stamp]entry{m.load(name), ofProcess.known[name]} {
		for s, e := range known {
			if s.Changed = stamp.Changed; s == stamp {
				return e.sum, true
			}
		}
	}
	return sum, false
}

// add remembers a hash in the process and, if possible, in the memo's file of that name.
func (m *Memo) add(name string, stamp vfs.Stamp, e entry) {
	ofProcess.Lock()
	defer ofProcess.Unlock()
	remember(ofProcess.known[name], stamp, e)
	if m == nil || m.dir == "" {
		return
	}
	_ = m.store(name, stamp, e) // the next process reads the file again
}

// remember adds an entry and removes those of other states of the same file, and the oldest
// ones if there are too many.
func remember(known map[vfs.Stamp]entry, stamp vfs.Stamp, e entry) {
	maps.DeleteFunc(known, func(s vfs.Stamp, _ entry) bool { return s.Device == stamp.Device && s.Inode == stamp.Inode })
	known[stamp] = e
	for len(known) > maxEntries {
		var oldest vfs.Stamp
		for s, e := range known {
			if was, ok := known[oldest]; !ok || e.at < was.at {
				oldest = s
			}
		}
		delete(known, oldest)
	}
}

// load reads a file of the memo. It returns no entries if the file is missing or damaged.
func (m *Memo) load(name string) map[vfs.Stamp]entry {
	if m == nil || m.dir == "" || vfs.CheckPrivate(m.fsys, m.dir) != nil {
		return nil
	}
	const limit = headerBytes + maxEntries*entryBytes + sumBytes
	data, err := vfs.ReadFile(m.fsys, vfs.Join(m.dir, name), int64(limit))
	if err != nil {
		return nil
	}
	return decode(data)
}

// store adds an entry to a file of the memo.
func (m *Memo) store(name string, stamp vfs.Stamp, e entry) (err error) {
	if err := m.fsys.MkdirAll(m.dir); err != nil {
		return err
	}
	if err := vfs.CheckPrivate(m.fsys, m.dir); err != nil {
		return err
	}
	path := vfs.Join(m.dir, name)
	lock, err := vfs.Lock(m.fsys, path+lockSuffix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if vfs.ProvesAbsence(lock) {
		if err := m.removeStale(name); err != nil {
			return err
		}
	}
	known := m.load(name)
	if known == nil {
		known = map[vfs.Stamp]entry{}
	}
	remember(known, stamp, e)
	return vfs.WriteFile(m.fsys, path, encode(known))
}

// removeStale removes the temporary files of killed writers of a file. The caller holds its lock.
func (m *Memo) removeStale(name string) error {
	files, err := m.fsys.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name, name+vfs.TempMark) {
			if err := m.fsys.Remove(vfs.Join(m.dir, f.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// encode returns the file: magic, version in 4 bytes, number of entries in 4 bytes, the
// entries, and the xxHash64 of all that. An entry is size, modified, changed, device, inode
// and time of the hash in 8 bytes each, then the hash. Numbers are little-endian.
func encode(known map[vfs.Stamp]entry) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte(memoMagic), memoVersion)
	b = le.AppendUint32(b, uint32(len(known)))
	newest := slices.SortedFunc(maps.Keys(known), func(x, y vfs.Stamp) int { return int(min(1, max(-1, known[y].at-known[x].at))) })
	for _, s := range newest {
		for _, v := range []uint64{uint64(s.Size), uint64(s.Modified), uint64(s.Changed), s.Device, s.Inode, uint64(known[s].at)} {
			b = le.AppendUint64(b, v)
		}
		sum := known[s].sum
		b = append(b, sum[:]...)
	}
	return le.AppendUint64(b, store.Sum64(checksumSeed, b))
}

// decode returns the entries of a file, nil if it is damaged or of another version.
func decode(b []byte) map[vfs.Stamp]entry {
	le, end := binary.LittleEndian, len(b)-sumBytes
	if end < headerBytes || string(b[:8]) != memoMagic || le.Uint32(b[8:]) != memoVersion ||
		int64(end) != headerBytes+int64(le.Uint32(b[12:]))*int64(entryBytes) || le.Uint64(b[end:]) != store.Sum64(checksumSeed, b[:end]) {
		return nil
	}
	known := map[vfs.Stamp]entry{}
	for at := headerBytes; at < end; at += entryBytes {
		number := func(i int) uint64 { return le.Uint64(b[at+8*i:]) }
		s := vfs.Stamp{Size: int64(number(0)), Modified: int64(number(1)), Changed: int64(number(2)), Device: number(3), Inode: number(4)}
		known[s] = entry{Sum(b[at+6*8 : at+entryBytes]), int64(number(5))}
	}
	return known
}
