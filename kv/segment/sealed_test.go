package segment

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// sealed encrypts a file system with a key for tests.
func sealed(fsys vfs.FS) vfs.FS { return sealedWith(fsys, 1) }

func sealedWith(fsys vfs.FS, seed byte) vfs.FS {
	return vfs.Sealed(fsys, [vfs.SealKeyBytes]byte{seed, 2, 3})
}

// fileSystems are the file systems of a directory: as it is, and encrypted.
var fileSystems = map[string]func(vfs.FS) vfs.FS{"plain": func(fsys vfs.FS) vfs.FS { return fsys }, "sealed": sealed}

// onDisk returns all files below the cache of a file system in memory, by path.
func onDisk(t *testing.T, mem vfs.FS) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, dir := range []string{"cache", "cache/kv", "cache/sessions"} {
		infos, err := mem.ReadDir(dir)
		require.NoError(t, err)
		for _, info := range infos {
			if info.IsDir {
				continue
			}
			data, err := vfs.ReadFile(mem, dir+"/"+info.Name, 1<<30)
			require.NoError(t, err)
			all[dir+"/"+info.Name] = data
		}
	}
	return all
}

// TestSealedHidesText saves a session and looks for its text, its token ids, its keys and
// values, and the hashes of its content in every byte and name. The same search finds them
// without encryption.
func TestSealedHidesText(t *testing.T) {
	for kind, of := range fileSystems {
		mem := vfs.NewMem()
		s := openStore(t, of(mem), 0)
		tokens := randomTokens(3, 70)
		m := mustWrite(t, s, tokens, 5)
		m.Messages = []Message{{"user", "a very private question"}}
		require.NoError(t, save(s.dir, "talk-with-doctor", m))
		secrets := [][]byte{[]byte("private question"), []byte("talk-with-doctor"), appendTokens(nil, tokens[:4]), appendTokens(nil, tokens[40:42])}
		names := m.names()
		for i, r := range m.Segments {
			secrets = append(secrets, r.ID[:], []byte(r.ID.String()), []byte(names[i]), pageOf(r.ID, 0, 1)[:16], pageOf(r.ID, 2, 0)[:16])
		}
		for i, secret := range secrets {
			found := false
			for path, data := range onDisk(t, mem) {
				found = found || bytes.Contains(data, secret) || strings.Contains(path, string(secret))
			}
			require.Equal(t, kind == "plain", found, "%s: secret %d", kind, i)
		}

		again := openStore(t, of(mem), 0)
		got, err := again.dir.Session("talk-with-doctor")
		require.NoError(t, err)
		require.Equal(t, m, got)
		require.Equal(t, 68, found(t, again, tokens))
		_, err = again.dir.VerifySession("talk-with-doctor")
		require.NoError(t, err)
	}
}

// TestSealedDirectoriesAreSeparate uses one directory without a key and with two keys: each
// finds its own, and cleaning, expiry and eviction leave the others' files as they are.
func TestSealedDirectoriesAreSeparate(t *testing.T) {
	mem := vfs.NewMem()
	tokens := randomTokens(3, 70)
	views := []vfs.FS{mem, sealedWith(mem, 1), sealedWith(mem, 2)}
	for i, fsys := range views {
		s := openStore(t, fsys, 0)
		require.Zero(t, found(t, s, tokens), "view %d sees the files of others", i)
		_, err := s.dir.Session("talk")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, save(s.dir, "talk", mustWrite(t, s, tokens, 5)))
		mustWrite(t, s, randomTokens(4, 16), 4)
		require.NoError(t, s.dir.Close())
	}
	before := onDisk(t, mem)
	for i, fsys := range views {
		d := openDir(t, fsys, 0)
		segments, sessions, err := d.Foreign()
		require.NoError(t, err)
		require.Equal(t, 2, sessions)
		require.Equal(t, 2*5-i, segments) // those before have cleaned one each
		count, _, err := d.Clean()
		require.NoError(t, err)
		require.Equal(t, 1, count)
		names, err := d.SessionNames()
		require.NoError(t, err)
		require.Equal(t, []string{"talk"}, names)
		_, err = d.VerifySession("talk")
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	after := onDisk(t, mem)
	require.Len(t, after, len(before)-3)
	_, err := openDir(t, views[1], 0).RemoveSession("talk")
	require.NoError(t, err)
	require.Equal(t, 68, found(t, openStore(t, views[0], 0), tokens))
	require.Equal(t, 68, found(t, openStore(t, views[2], 0), tokens))
}

// TestSealedDoesNotUseTheRoomOfOthers fills a directory with encrypted segments: without the
// key they cannot be evicted, and must not make everything else too large.
func TestSealedDoesNotUseTheRoomOfOthers(t *testing.T) {
	mem := vfs.NewMem()
	limit := int64(70 << 10)
	for _, fsys := range []vfs.FS{sealed(mem), mem} {
		s := openStore(t, fsys, limit)
		mustWrite(t, s, randomTokens(3, 48), 4)
		require.Positive(t, found(t, s, randomTokens(3, 48)))
	}
}

// TestEncryptedPagesAreAuthentic looks a segment up in both file systems.
func TestEncryptedPagesAreAuthentic(t *testing.T) {
	for name, wrap := range fileSystems {
		s := openStore(t, wrap(vfs.NewMem()), 0)
		tokens := randomTokens(1, 10)
		mustWrite(t, s, tokens, 16)
		spans, err := s.Lookup(tokens)
		require.NoError(t, err)
		require.NotEmpty(t, spans)
		require.Equal(t, name == "sealed", spans[0].File.Authentic(), name)
		require.NoError(t, Close(spans))
	}
}

// TestSealedDamageHeals flips bytes of an encrypted segment and of an encrypted session: each is
// refused, nothing is deleted that a session needs, and the next save repairs it.
func TestSealedDamageHeals(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, sealed(mem), 0)
	tokens := randomTokens(1, 10)
	m := mustWrite(t, s, tokens, 16)
	require.NoError(t, save(s.dir, "talk", m))
	for path, data := range onDisk(t, mem) {
		for i := 0; i < len(data); i += 1 + len(data)/150 {
			bad := bytes.Clone(data)
			bad[i] ^= 0x20
			require.NoError(t, vfs.WriteFile(mem, path, bad))
			_, err := openDir(t, sealed(mem), 0).VerifySession("talk")
			require.True(t, isRefusal(err), "%s: byte %d: %v", path, i, err)
			require.ErrorIs(t, err, store.ErrFormat)
		}
		require.NoError(t, vfs.WriteFile(mem, path, data))
	}
	var path string
	for name := range onDisk(t, mem) {
		if strings.HasPrefix(name, "cache/kv/") {
			path = name
		}
	}
	change(t, mem, path, func(b []byte) []byte { b[4096+8192+100] ^= 1; return b })
	s = openStore(t, sealed(mem), 0)
	spans, err := s.Lookup(tokens)
	require.NoError(t, err)
	err = spans[0].File.VerifyAll()
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, spans[0].File.Path(), corrupt.Path)
	require.Equal(t, 2, corrupt.Layer)
	require.ErrorIs(t, err, vfs.ErrSeal)
	require.NoError(t, s.Discard(spans[0].File))
	require.NoError(t, Close(spans))
	require.Contains(t, onDisk(t, mem), path, "a session needs it")
	mustWrite(t, s, tokens, 16)
	_, err = s.dir.VerifySession("talk")
	require.NoError(t, err)
}
