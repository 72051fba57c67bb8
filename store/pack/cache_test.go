package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// openCache returns a cache of packs of 100 bytes each, used in the order a, b, c. Its
// clock stands still.
func openCache(t *testing.T, limit int64) (*Cache, *vfs.Mem) {
	fsys := vfs.NewMem()
	c, err := OpenCache(fsys, "cache/packs", limit)
	require.NoError(t, err)
	clock := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	c.now = func() time.Time { return clock }
	for _, name := range []string{"a", "b", "c"} {
		clock = clock.Add(time.Hour)
		path := c.path(name + Suffix)
		require.NoError(t, vfs.WriteFile(fsys, path, make([]byte, 100)))
		require.NoError(t, c.Use(path, "/models/"+name+".gguf"))
	}
	return c, fsys
}

func names(t *testing.T, c *Cache) (names []string) {
	list, err := c.List()
	require.NoError(t, err)
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

func TestCacheList(t *testing.T) {
	c, fsys := openCache(t, 1000)
	list, err := c.List()
	require.NoError(t, err)
	require.Equal(t, []string{"c.pack", "b.pack", "a.pack"}, names(t, c))
	require.Equal(t, Cached{"c.pack", 100, "/models/c.gguf", time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)}, list[0])
	require.NoError(t, vfs.WriteFile(fsys, "cache/packs/c.pack.use", []byte("{")))
	require.NoError(t, vfs.WriteFile(fsys, "cache/packs/notes.txt", []byte("mine")))
	require.Equal(t, []string{"b.pack", "a.pack", "c.pack"}, names(t, c), "a pack without a record counts as unused")
	require.NoError(t, c.Remove("b.pack"))
	require.Equal(t, []string{"a.pack", "c.pack"}, names(t, c))
	_, err = fsys.Stat("cache/packs/b.pack.use")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, c.Remove("b.pack"), fs.ErrNotExist)
	for _, name := range []string{"../x.pack", "notes.txt", "a/b.pack"} {
		require.ErrorContains(t, c.Remove(name), "not the name of a pack")
	}
}

func TestMakeRoom(t *testing.T) {
	for _, c := range []struct {
		need int64
		want []string
	}{
		{200, []string{"c.pack", "b.pack", "a.pack"}},
		{201, []string{"c.pack", "b.pack"}},
		{301, []string{"c.pack"}},
		{500, nil},
	} {
		t.Run(fmt.Sprint(c.need), func(t *testing.T) {
			cache, _ := openCache(t, 500)
			require.NoError(t, cache.MakeRoom(c.need))
			require.Equal(t, c.want, names(t, cache))
		})
	}
	cache, _ := openCache(t, 500)
	err := cache.MakeRoom(501)
	require.ErrorIs(t, err, ErrNoRoom)
	require.ErrorContains(t, err, "the pack takes 501 B, and the packs in cache/packs may take 500 B; permit at least 669 B with --cache-size, or ")
	require.Equal(t, err, CheckCache(cache.fsys, cache.dir, 500, 501))
	require.NoError(t, CheckCache(cache.fsys, cache.dir, 500, 500))
	require.Len(t, names(t, cache), 3, "a failed MakeRoom removes nothing")
	cache.limit = 0
	require.NoError(t, cache.MakeRoom(1<<30), "it fits into the default limit")
	require.ErrorIs(t, cache.MakeRoom(defaultCacheBytes+1), ErrNoRoom)
}

// TestMakeRoomOnDisk requests more than any disk has.
func TestMakeRoomOnDisk(t *testing.T) {
	c, err := OpenCache(vfs.OS(), t.TempDir(), 1<<60)
	require.NoError(t, err)
	err = c.MakeRoom(1 << 59)
	require.ErrorIs(t, err, ErrNoRoom)
	require.Regexp(t, "the disk of .* has .* free, of which 256 MiB stay free; free at least .*, or choose another directory with --cache-dir", err)
	require.ErrorIs(t, CheckCache(vfs.OS(), vfs.Join(c.dir, "none/yet"), 1<<60, 1<<59), ErrNoRoom)
	require.ErrorContains(t, CheckRoom(vfs.OS(), c.dir, 1<<59), "256 MiB stay free; free at least ")
	c.limit = 0
	err = c.MakeRoom(1 << 59)
	require.ErrorIs(t, err, ErrNoRoom)
	require.ErrorContains(t, err, "--cache-size")
}

// TestMakeRoomWithoutRemoving uses a file system that cannot remove the packs.
func TestMakeRoomWithoutRemoving(t *testing.T) {
	c, fsys := openCache(t, 300)
	c.fsys = vfs.NewFaulty(fsys, func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove {
			return errors.New("in use")
		}
		return nil
	})
	require.ErrorIs(t, c.MakeRoom(1), ErrNoRoom)
	require.Len(t, names(t, c), 3)
}

// TestCacheSweep checks that OpenCache removes the leftovers of killed imports and keeps
// the files of a running one.
func TestCacheSweep(t *testing.T) {
	_, fsys := openCache(t, 0)
	for _, name := range []string{
		"dead.pack" + vfs.TempMark + "01", "alive.pack" + vfs.TempMark + "02", "gone.pack.use", "mine" + vfs.TempMark + "03", "dead.pack.lock",
	} {
		require.NoError(t, vfs.WriteFile(fsys, "cache/packs/"+name, []byte("x")))
	}
	lock, err := vfs.Lock(fsys, "cache/packs/alive.pack.lock")
	require.NoError(t, err)
	defer lock.Close()
	_, err = OpenCache(fsys, "cache/packs", 0)
	require.NoError(t, err)
	left, err := fsys.ReadDir("cache/packs")
	require.NoError(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name)
	}
	require.Subset(t, names, []string{"a.pack", "a.pack.use", "alive.pack" + vfs.TempMark + "02", "mine" + vfs.TempMark + "03"})
	require.NotContains(t, names, "dead.pack"+vfs.TempMark+"01")
	require.NotContains(t, names, "gone.pack.use")
}

func TestCachePath(t *testing.T) {
	c, fsys := openCache(t, 0)
	f := Fingerprint{0xab}
	path := func(source string, f Fingerprint) string {
		p, err := c.Path(source, f)
		require.NoError(t, err)
		return p
	}
	require.Equal(t, "cache/packs/qwen-q4_0-ab00000000000000-1.pack", path("qwen-q4_0.gguf", f))
	require.Equal(t, "cache/packs/a_b_c-ab00000000000000-1.pack", path("a/b\x01c", f))
	require.Equal(t, c.dir+"/", path("..", f)[:len(c.dir)+1])
	require.Less(t, len(path(string(make([]byte, 5000)), f)), 200)
	require.Equal(t, "cache/packs/qwen-q4_0-ab00000000000000.pack", c.SampledPath("qwen-q4_0.gguf", f))

	require.NoError(t, vfs.WriteFile(fsys, path("first.gguf", f), nil))
	require.Equal(t, "cache/packs/first-ab00000000000000-1.pack", path("renamed.gguf", f))
	require.Equal(t, "cache/packs/first-ac00000000000000-1.pack", path("first.gguf", Fingerprint{0xac}))
}
