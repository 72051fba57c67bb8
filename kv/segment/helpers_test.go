package segment

import (
	"encoding/binary"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// testLayout has a layer whose size is not a multiple of 4096, one without KV, and
// one whose size is a multiple.
var testLayout = Layout{PageTokens: 4, PageBytes: []int{600, 0, 2048}, Format: 1}

// writeNow writes at once.
func writeNow(to io.WriterAt, p []byte, off int64) error {
	_, err := to.WriteAt(p, off)
	return err
}

var testKey = NewKey(testLayout, "a model")

// openDir opens the directory "cache" of a file system, without a reserve of free
// space.
func openDir(t testing.TB, fsys vfs.FS, limit int64) *Dir {
	t.Helper()
	d, err := OpenDir(fsys, "cache", limit)
	require.NoError(t, err)
	d.spare = 0
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func openStore(t testing.TB, fsys vfs.FS, limit int64) *Store {
	t.Helper()
	s, err := openDir(t, fsys, limit).Store(testKey, testLayout)
	require.NoError(t, err)
	return s
}

// randomTokens returns n tokens that depend on a seed.
func randomTokens(seed uint64, n int) []int32 {
	random := rand.New(rand.NewPCG(seed, 1))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(random.IntN(1000))
	}
	return ids
}

// pagesOf returns pages that depend, like KV, on all tokens up to the end of the
// segment.
func pagesOf(id ID) Pages {
	return func(layer, page int) ([]byte, error) { return pageOf(id, layer, page), nil }
}

func pageOf(id ID, layer, page int) []byte {
	random := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(id[:]), uint64(layer*100+page)))
	b := make([]byte, testLayout.PageBytes[layer])
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// writeSegment writes the whole pages of a sequence in segments of at most pages
// pages and returns a manifest that names them.
func writeSegment(s *Store, tokens []int32, pages int, durable bool) (*Manifest, error) {
	m := &Manifest{
		Model: "m", Settings: "k8v8", Identity: ID{1}, Key: s.key, Tokens: tokens, PageTokens: 4,
		Created: time.UnixMilli(1000).UTC(), Saved: time.UnixMilli(2000).UTC(), Messages: []Message{{"user", "Hé"}, {"assistant", ""}},
	}
	parent := s.key
	for at := 0; len(tokens)-at >= 4; {
		n := min(pages*4, (len(tokens)-at)/4*4)
		id := Next(parent, tokens[at:at+n])
		f, err := s.Write(parent, at, tokens[at:at+n], pagesOf(id), durable, writeNow)
		if err != nil {
			return m, err
		}
		if err := f.Close(); err != nil {
			return m, err
		}
		m.Segments = append(m.Segments, Ref{id, n / 4})
		parent, at = id, at+n
	}
	return m, nil
}

func mustWrite(t testing.TB, s *Store, tokens []int32, pages int) *Manifest {
	t.Helper()
	m, err := writeSegment(s, tokens, pages, true)
	require.NoError(t, err)
	return m
}

// save saves a session under a name.
func save(d *Dir, name string, m *Manifest) error {
	l, err := d.LockSession(name)
	if err != nil {
		return err
	}
	if err := l.Save(m); err != nil {
		_ = l.Close()
		return err
	}
	return l.Close()
}

// requireSpans compares all bytes of spans with the written ones.
func requireSpans(t testing.TB, spans []Span) {
	t.Helper()
	for _, p := range spans {
		for l, n := range testLayout.PageBytes {
			b := make([]byte, p.Pages*n)
			require.NoError(t, p.File.ReadLayer(l, p.Pages, b))
			for i := range p.Pages {
				require.Equal(t, pageOf(p.File.ID(), l, i), b[i*n:(i+1)*n])
			}
		}
	}
}

// found looks tokens up, verifies the result, and returns the number of tokens found.
func found(t testing.TB, s *Store, tokens []int32) int {
	t.Helper()
	spans, err := s.Lookup(tokens)
	require.NoError(t, err)
	requireSpans(t, spans)
	n := 0
	for _, p := range spans {
		n += p.Pages * 4
	}
	require.NoError(t, Close(spans))
	return n
}

// filesIn lists the files of a directory whose names contain part.
func filesIn(t testing.TB, fsys vfs.FS, dir, part string) (names []string) {
	t.Helper()
	infos, err := fsys.ReadDir(dir)
	if err != nil {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	for _, i := range infos {
		if strings.Contains(i.Name, part) {
			names = append(names, i.Name)
		}
	}
	return names
}

// change rewrites a file.
func change(t testing.TB, fsys vfs.FS, name string, edit func(b []byte) []byte) {
	t.Helper()
	b, err := vfs.ReadFile(fsys, name, 1<<30)
	require.NoError(t, err)
	require.NoError(t, vfs.WriteFile(fsys, name, edit(b)))
}
