package kv

import (
	"io/fs"
	"path"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// strictFS is a file system that syncs only files that are open for writing, and neither removes nor replaces open files.
type strictFS struct {
	vfs.FS
	mu    sync.Mutex
	users map[string]int
}

type strictFile struct {
	vfs.File
	reads bool
	close func()
}

func (f *strictFile) Sync() error {
	if f.reads {
		return fs.ErrPermission
	}
	return f.File.Sync()
}

func (f *strictFile) Close() error {
	f.close()
	return f.File.Close()
}

// use counts users of a file, and returns how many it has.
func (s *strictFS) use(name string, more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[path.Clean(name)] += more
	return s.users[path.Clean(name)]
}

func (s *strictFS) opened(f vfs.File, err error, name string, reads bool) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	s.use(name, 1)
	return &strictFile{f, reads, func() { s.use(name, -1) }}, nil
}

func (s *strictFS) Open(name string) (vfs.File, error) {
	f, err := s.FS.Open(name)
	return s.opened(f, err, name, true)
}

func (s *strictFS) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return s.opened(f, err, name, false)
}

func (s *strictFS) Remove(name string) error {
	if s.use(name, 0) > 0 {
		return fs.ErrPermission
	}
	return s.FS.Remove(name)
}

func (s *strictFS) Rename(from, to string) error {
	if s.use(from, 0)+s.use(to, 0) > 0 {
		return fs.ErrPermission
	}
	return s.FS.Rename(from, to)
}

// TestSaveBehindThePrefixCache makes segments durable that were written for the prefix cache, where a file that is open
// for reading cannot be synced, and one that is open cannot be replaced.
func TestSaveBehindThePrefixCache(t *testing.T) {
	for _, spills := range []bool{false, true} {
		budget, mem := tiering.New(0), vfs.NewMem()
		o := Options{}
		if spills {
			o.Spill = NewScratch(vfs.NewMem(), "scratch", budget)
		}
		c, err := NewCache(Shape{HeadDim: 8, KVHeads: []int{1, 0, 2}}, budget, o)
		require.NoError(t, err)
		dir, err := segment.OpenDir(&strictFS{FS: mem, users: map[string]int{}}, "saved", 1<<30)
		require.NoError(t, err)
		store, err := dir.Store(segment.NewKey(c.SegmentLayout(), "a model"), c.SegmentLayout())
		require.NoError(t, err)
		s := c.NewSeq()
		const n = 3 * BlockTokens
		require.NoError(t, add(s, n, 1))
		tokens := make([]int32, n)
		chain, err := s.Persist(store, tokens, nil, false)
		require.NoError(t, err)
		_, err = s.Persist(store, tokens, chain, true)
		require.NoError(t, err, "spills: %v", spills)
		check(t, s, same(n, 1))
		lost, err := segment.OpenDir(mem.CrashClone(0, 1), "saved", 0)
		require.NoError(t, err)
		list, err := lost.List()
		require.NoError(t, err)
		for _, f := range list {
			require.NotZero(t, f.Bytes, "a name that survived has its bytes")
		}
		s.Close()
		require.NoError(t, c.Close())
		require.NoError(t, dir.Close())
		require.NoError(t, budget.Check())
	}
}
