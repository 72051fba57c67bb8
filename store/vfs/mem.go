package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// Mem is a file system in memory for tests. It distinguishes synced from unsynced data, so
// that CrashClone can return the state after a power loss: file contents are durable after
// File.Sync, directory entries after FS.SyncDir. Mem has no symbolic links.
type Mem struct {
	mu       sync.Mutex
	live     map[string]*memNode // the visible tree, by clean path
	durable  map[string]*memNode // the synced entries
	journal  []entryChange       // unsynced changes of entries, in order
	useClock int64               // counts creations and touches; serves as the clock

	locks memLocks
}

// memNode is a file or directory. Mem.mu guards its fields.
type memNode struct {
	dir     bool
	data    []byte      // the visible content
	synced  []byte      // the content that a power loss preserves
	pending []memChange // the changes from synced to data, in order
	lastUse int64       // value of Mem.useClock at the last use
}

// memChange is a write of data at off or, if data is nil, a truncation to off.
type memChange struct {
	off  int64
	data []byte
}

// entryChange is an atomic change of directory entries: it removes one name and adds
// another; either may be empty. A rename has both.
type entryChange struct {
	remove, add string
	node        *memNode
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	return newMemFrom(map[string]*memNode{".": {dir: true}})
}

// newMemFrom returns a file system in which all entries are durable.
func newMemFrom(entries map[string]*memNode) *Mem {
	m := &Mem{live: entries, durable: make(map[string]*memNode, len(entries))}
	for name, node := range entries {
		m.durable[name] = node
	}
	return m
}

// change applies c to the visible tree and records it. The caller holds mu.
func (m *Mem) change(c entryChange) {
	c.apply(m.live)
	m.journal = append(m.journal, c)
}

// apply applies the change to a tree.
func (c entryChange) apply(entries map[string]*memNode) {
	delete(entries, c.remove)
	if c.add != "" {
		entries[c.add] = c.node
	}
}

// touches reports whether syncing dir makes c durable.
func (c entryChange) touches(dir string) bool {
	return c.remove != "" && path.Dir(c.remove) == dir || c.add != "" && path.Dir(c.add) == dir
}

// find returns the node of name. The caller holds mu.
func (m *Mem) find(op, name string, wantDir bool) (*memNode, error) {
	node, ok := m.live[cleanName(name)]
	switch {
	case !ok:
		return nil, wrap(op, name, noOffset, fs.ErrNotExist)
	case wantDir && !node.dir:
		return nil, wrap(op, name, noOffset, fmt.Errorf("not a directory: %w", fs.ErrInvalid))
	case !wantDir && node.dir:
		return nil, wrap(op, name, noOffset, ErrNotRegular)
	}
	return node, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("open", name, false)
	if err != nil {
		return nil, err
	}
	return &memFile{fs: m, node: node, name: name}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanName(name)
	if _, err := m.find("create", path.Dir(clean), true); err != nil {
		return nil, err
	}
	node, ok := m.live[clean]
	switch {
	case ok && node.dir:
		return nil, wrap("create", name, noOffset, ErrNotRegular)
	case ok:
		node.truncate(0)
	default:
		node = &memNode{}
		m.change(entryChange{add: clean, node: node})
	}
	m.noteUse(node)
	return &memFile{fs: m, node: node, name: name, writable: true}, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, ok := m.live[cleanName(name)]
	if !ok {
		return Info{}, wrap("stat", name, noOffset, fs.ErrNotExist)
	}
	return node.info(cleanName(name)), nil
}

func (n *memNode) info(clean string) Info {
	return Info{Name: path.Base(clean), Size: int64(len(n.data)), IsDir: n.dir}
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find("readdir", name, true); err != nil {
		return nil, err
	}
	var infos []Info
	for child, node := range m.live {
		if child != "." && path.Dir(child) == cleanName(name) {
			infos = append(infos, node.info(child))
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	for dir := cleanName(name); ; dir = path.Dir(dir) {
		node, ok := m.live[dir]
		if ok && !node.dir {
			return wrap("mkdir", name, noOffset, fs.ErrExist)
		}
		if ok {
			break
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		m.change(entryChange{add: dir, node: &memNode{dir: true}})
	}
	return nil
}

// Rename implements FS. Directories cannot be renamed.
func (m *Mem) Rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("rename", oldName, false)
	if err != nil {
		return err
	}
	if _, err := m.find("rename", path.Dir(cleanName(newName)), true); err != nil {
		return err
	}
	if target, ok := m.live[cleanName(newName)]; ok && target.dir {
		return wrap("rename", newName, noOffset, fs.ErrExist)
	}
	if cleanName(oldName) != cleanName(newName) {
		m.change(entryChange{remove: cleanName(oldName), add: cleanName(newName), node: node})
	}
	return nil
}

// Remove implements FS. Open files stay readable, as on Unix.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := cleanName(name)
	if _, ok := m.live[clean]; !ok {
		return wrap("remove", name, noOffset, fs.ErrNotExist)
	}
	for child := range m.live {
		if child != "." && path.Dir(child) == clean {
			return wrap("remove", name, noOffset, fmt.Errorf("directory not empty: %w", fs.ErrExist))
		}
	}
	m.change(entryChange{remove: clean})
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find("syncdir", name, true); err != nil {
		return err
	}
	unsynced := m.journal[:0]
	for _, c := range m.journal {
		if c.touches(cleanName(name)) {
			c.apply(m.durable)
		} else {
			unsynced = append(unsynced, c)
		}
	}
	m.journal = unsynced
	return nil
}

// memFile is an open file of a Mem.
type memFile struct {
	fs       *Mem
	node     *memNode
	name     string
	writable bool
	closed   bool // guarded by fs.mu
}

// lock acquires the mutex of the file system and checks that the operation is valid. The
// mutex is released on error.
func (f *memFile) lock(op string, off int64, write bool) error {
	hasOffset := op == "read" || op == "write" || op == "truncate"
	f.fs.mu.Lock()
	var err error
	switch {
	case f.closed:
		err = fs.ErrClosed
	case write && !f.writable:
		err = fs.ErrPermission
	case hasOffset && off < 0:
		err = fs.ErrInvalid
	default:
		return nil
	}
	f.fs.mu.Unlock()
	return wrap(op, f.name, off, err)
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.lock("read", off, false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	n := 0
	if off < int64(len(f.node.data)) {
		n = copy(p, f.node.data[off:])
	}
	if n < len(p) {
		return n, wrap("read", f.name, off+int64(n), io.EOF)
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.lock("write", off, true); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	f.node.pending = append(f.node.pending, memChange{off, append([]byte{}, p...)})
	f.node.data = writeInto(f.node.data, p, off)
	return len(p), nil
}

// writeInto writes p at off and fills a gap with zeros.
func writeInto(data, p []byte, off int64) []byte {
	if grow := off + int64(len(p)) - int64(len(data)); grow > 0 && len(p) > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[min(off, int64(len(data))):], p)
	return data
}

func (f *memFile) Truncate(size int64) error {
	if err := f.lock("truncate", size, true); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.node.truncate(size)
	return nil
}

func (n *memNode) truncate(size int64) {
	n.pending = append(n.pending, memChange{off: size})
	n.data = resize(n.data, size)
}

// resize truncates data or extends it with zeros.
func resize(data []byte, size int64) []byte {
	if grow := size - int64(len(data)); grow > 0 {
		return append(data, make([]byte, grow)...)
	}
	return data[:size:size]
}

func (f *memFile) Size() (int64, error) {
	if err := f.lock("stat", noOffset, false); err != nil {
		return 0, err
	}
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *memFile) Sync() error {
	if err := f.lock("sync", noOffset, false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	for _, c := range f.node.pending {
		f.node.synced = c.apply(f.node.synced)
	}
	f.node.pending = nil
	return nil
}

// apply applies the change to the content of a file.
func (c memChange) apply(data []byte) []byte {
	if c.data == nil {
		return resize(data, c.off)
	}
	return writeInto(data, c.data, c.off)
}

func (f *memFile) Close() error {
	if err := f.lock("close", noOffset, false); err != nil {
		return err
	}
	defer f.fs.mu.Unlock()
	f.closed = true
	return nil
}

func (f *memFile) Name() string { return f.name }
