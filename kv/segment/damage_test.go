package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bound"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
)

// saved returns a file system with a session, the path of its segment and the path of
// the session file.
func saved(t testing.TB) (mem *vfs.Mem, segment, session string) {
	mem = vfs.NewMem()
	s := openStore(t, mem, 0)
	require.NoError(t, save(s.dir, "talk", mustWrite(t, s, randomTokens(1, 10), 16)))
	return mem, "cache/kv/" + filesIn(t, mem, "cache/kv", Suffix)[0], "cache/sessions/talk.session"
}

// TestEveryFlippedByteIsDetected changes each byte of a segment and of a session.
func TestEveryFlippedByteIsDetected(t *testing.T) {
	mem, segment, session := saved(t)
	for _, name := range []string{segment, session} {
		data, err := vfs.ReadFile(mem, name, 1<<20)
		require.NoError(t, err)
		f, err := mem.Create(name)
		require.NoError(t, err)
		_, err = f.WriteAt(data, 0)
		require.NoError(t, err)
		d := openDir(t, mem, 0)
		_, err = d.VerifySession("talk")
		require.NoError(t, err)
		for i := range data {
			_, err = f.WriteAt([]byte{data[i] ^ 0x20}, int64(i))
			require.NoError(t, err)
			_, err = d.VerifySession("talk")
			if err == nil {
				t.Fatalf("%s: the change of byte %d of %d was not detected", name, i, len(data))
			}
			if !isRefusal(err) {
				t.Fatalf("%s: byte %d: %v", name, i, err)
			}
			_, err = f.WriteAt(data[i:i+1], int64(i))
			require.NoError(t, err)
		}
	}
}

// isRefusal reports whether err describes a damaged file or an unknown version, with
// an offset.
func isRefusal(err error) bool {
	return isFormat(err) && bytes.Contains([]byte(err.Error()), []byte("at offset"))
}

// TestPagesOfAnotherSegmentAreDetected verifies wrong pages: from another position,
// from another sequence, and zeros.
func TestPagesOfAnotherSegmentAreDetected(t *testing.T) {
	mem := vfs.NewMem()
	s := openStore(t, mem, 0)
	a, b := randomTokens(1, 16), randomTokens(2, 16)
	mustWrite(t, s, a, 16)
	mustWrite(t, s, b, 16)
	parts, err := s.Lookup(a)
	require.NoError(t, err)
	other, err := s.Lookup(b)
	require.NoError(t, err)
	f := parts[0].File
	page := func(f *File, layer, i int) []byte { return pageOf(f.ID(), layer, i) }
	require.NoError(t, f.Verify(0, 1, crc.Update(0, page(f, 0, 1))))
	var corrupt *CorruptError
	for what, payload := range map[string][]byte{
		"another page":     page(f, 0, 2),
		"another sequence": page(other[0].File, 0, 1),
		"zeros":            make([]byte, 600),
		"a short page":     page(f, 0, 1)[:599],
		"another layer":    page(f, 2, 1)[:600],
	} {
		require.ErrorAs(t, f.Verify(0, 1, crc.Update(0, payload)), &corrupt, what)
	}
	off, _ := f.run(0)
	require.Equal(t, CorruptError{Path: f.path, Off: off + 600, Layer: 0, Page: 1}, *corrupt)
	require.ErrorIs(t, corrupt, store.ErrFormat)
	for _, i := range f.checksums[:4] {
		require.NotZero(t, i)
	}
	require.NoError(t, Close(append(parts, other...)))

	// A complete file under the name of another one.
	change(t, mem, other[0].File.path, func([]byte) []byte {
		data, err := vfs.ReadFile(mem, f.path, 1<<20)
		require.NoError(t, err)
		return data
	})
	none, err := s.Lookup(b)
	require.Empty(t, none)
	require.ErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, "the file holds segment")
}

// TestDamagedSegmentIsRewritten checks that a damaged segment of a session stays
// until Write replaces it, durable or not.
func TestDamagedSegmentIsRewritten(t *testing.T) {
	mem, name, _ := saved(t)
	change(t, mem, name, func(b []byte) []byte { b[4096] ^= 1; return b })
	s := openStore(t, mem, 0)
	parts, err := s.Lookup(randomTokens(1, 10))
	require.NoError(t, err)
	require.ErrorIs(t, parts[0].File.VerifyAll(), ErrCorrupt)
	require.NoError(t, s.Discard(parts[0].File))
	require.NoError(t, Close(parts))
	_, err = s.dir.VerifySession("talk")
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = writeSegment(s, randomTokens(1, 10), 16, false)
	require.NoError(t, err)
	_, err = s.dir.VerifySession("talk")
	require.NoError(t, err)
}

func isFormat(err error) bool {
	return errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrUnsupported)
}

// resum recomputes the checksum of a header, as an attacker could.
func resum(b []byte) []byte {
	if len(b) < pageAlign {
		return b
	}
	number := func(at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
	end := fixedBytes + 4*number(92) + 4*number(80)*number(96) + 8*number(92)*number(80)
	if end >= 0 && end+checksumBytes <= int64(len(b)) {
		binary.LittleEndian.PutUint64(b[end:], store.Sum64(checksumSeed, b[:end]))
	}
	return b
}

// resumManifest recomputes the checksum and the length of a session.
func resumManifest(b []byte) []byte {
	if len(b) < manifestFixed {
		return b
	}
	binary.LittleEndian.PutUint64(b[12:], uint64(len(b)))
	end := len(b) - checksumBytes
	binary.LittleEndian.PutUint64(b[end:], store.Sum64(checksumSeed, b[:end]))
	return b
}

func TestMalformedSegments(t *testing.T) {
	mem, name, _ := saved(t)
	golden, err := vfs.ReadFile(mem, name, 1<<20)
	require.NoError(t, err)
	number := func(at int, v uint32) []byte {
		b := bytes.Clone(golden)
		binary.LittleEndian.PutUint32(b[at:], v)
		return resum(b)
	}
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"empty", "not a multiple of 4096", nil},
		{"three bytes", "not a multiple of 4096", golden[:3]},
		{"cut after the header", "bytes instead of", golden[:4096]},
		{"another magic", "magic", append([]byte("GGUFGGUF"), golden[8:]...)},
		{"the next version", "3 is unknown, this program reads 2", number(8, 3)},
		{"a header of nothing", "do not match", number(12, 0)},
		{"another id", "does not match the parent and the tokens", number(16, 7)},
		{"another length", "bytes instead of", number(64, 4096)},
		{"a length of 2^63", "bytes instead of", number(68, 1<<31)},
		{"start within a page", "are not whole pages", number(72, 2)},
		{"start of 2^62", "are not whole pages", number(76, 1<<30)},
		{"no pages", "0 is not from 1 to 16", number(80, 0)},
		{"17 pages", "17 is not from 1 to 16", number(80, 17)},
		{"2^32-1 pages", "is not from 1 to 16", number(80, 1<<32-1)},
		{"no layers", "0 is not from 1 to 4096", number(92, 0)},
		{"4096 layers", "do not match", number(92, 4096)},
		{"2^31 layers", "is not from 1 to 4096", number(92, 1<<31)},
		{"pages of no tokens", "0 is not from 1 to 16384", number(96, 0)},
		{"pages of 4096 tokens", "do not match", number(96, 4096)},
		{"a page of 4 GiB", "out of range", number(fixedBytes, 1<<32-1)},
		{"a page too large", "the pages end at", number(fixedBytes, 1<<29)},
		{"another token", "does not match the parent and the tokens", number(fixedBytes+12, 9)},
		{"no checksum", "the checksum does not match", append(append(bytes.Clone(golden[:200]), 1), golden[201:]...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := openBytes(t, c.data)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "c.kv")
			require.True(t, isFormat(err))
		})
	}
	for n := range len(golden) {
		_, err := openFile(only(golden[:n]), "c.kv")
		require.Error(t, err, "cut to %d bytes", n)
	}
}

// only returns a file system that holds one segment.
func only(data []byte) vfs.FS {
	return vfs.FromIOFS(fstest.MapFS{"c.kv": &fstest.MapFile{Data: data}})
}

// openBytes opens a segment that consists of data and reads all of it, within the
// time and memory limits of every parser.
func openBytes(tb testing.TB, data []byte) (err error) {
	bound.Check(tb, len(data), func() {
		var f *File
		if f, err = openFile(only(data), "c.kv"); err == nil {
			err = f.VerifyAll()
			_ = f.Close()
		}
	})
	return err
}

func TestMalformedSessions(t *testing.T) {
	mem, _, name := saved(t)
	written, err := vfs.ReadFile(mem, name, 1<<20)
	require.NoError(t, err)
	m, err := decodeManifest("x", written)
	require.NoError(t, err)
	golden := plain(m)
	edit := func(change func(m *Manifest)) []byte {
		other, err := decodeManifest("x", golden)
		require.NoError(t, err)
		change(other)
		return other.encode()
	}
	at := bytes.Index(golden, appendTokens(nil, m.Tokens)) // offset of the tokens
	number := func(at int, v uint32) []byte {
		b := bytes.Clone(golden)
		binary.LittleEndian.PutUint32(b[at:], v)
		return resumManifest(b)
	}
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"empty", "a session has at least", nil},
		{"another magic", "magic", append([]byte("GGUFGGUF"), golden[8:]...)},
		{"the next version", "7 is unknown", number(8, 7)},
		{"details without texts", "details", endManifest(compress(manifestHeader(detailsVersion), append(m.content(), 0, 0, 0, 0)))},
		{"beginnings without details", "details", endManifest(compress(manifestHeader(formerVersion), append(m.content(), 0, 0, 0, 0)))},
		{"a beginning without tokens", "a page of 0 tokens", edit(func(m *Manifest) { m.Former = []Beginning{{0, ID{}}} })},
		{"too many beginnings", "more than 4096", edit(func(m *Manifest) { m.Former = slices.Repeat([]Beginning{{4, ID{}}}, 4097) })},
		{"adapters without a number", "adapters", endManifest(compress(manifestHeader(adaptersVersion), m.content()))},
		{"version 0", "0 is unknown", number(8, 0)},
		{"cut", "bytes instead of", golden[:len(golden)-1]},
		{"a name of 4 GiB", "do not fit", number(20, 1<<32-1)},
		{"2^31 tokens", "do not fit", number(at-4, 1<<31)},
		{"another token", "does not match tokens", number(at, 7)},
		{"no page", "0 is not from 1", edit(func(m *Manifest) { m.PageTokens = 0 })},
		{"another page", "segment", edit(func(m *Manifest) { m.PageTokens = 2 })},
		{"no pages", "0 is not from 1", edit(func(m *Manifest) { m.Segments[0].Pages = 0 })},
		{"more pages than tokens", "they hold 12 tokens, the session has 10", edit(func(m *Manifest) { m.Segments[0].Pages = 3 })},
		{"another segment", "does not match tokens", edit(func(m *Manifest) { m.Segments[0].ID[3]++ })},
		{"another key", "does not match tokens", edit(func(m *Manifest) { m.Key[3]++ })},
		{"bytes after the end", "follow the last", resumManifest(append(bytes.Clone(golden), 0))},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := decodeManifest("x.session", c.data)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "x.session at offset")
			require.True(t, isFormat(err))
			require.Nil(t, m)
		})
	}
	for _, whole := range [][]byte{golden, written} {
		for n := range len(whole) {
			_, err := decodeManifest("x", resumManifest(bytes.Clone(whole[:n])))
			require.Error(t, err, "cut to %d bytes", n)
		}
	}
}

func FuzzSegment(f *testing.F) {
	mem, name, _ := saved(f)
	golden, err := vfs.ReadFile(mem, name, 1<<20)
	require.NoError(f, err)
	f.Add(golden)
	f.Add(golden[:4096])
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = openBytes(t, data)
		_ = openBytes(t, resum(bytes.Clone(data)))
	})
}

func FuzzSession(f *testing.F) {
	mem, _, name := saved(f)
	golden, err := vfs.ReadFile(mem, name, 1<<20)
	require.NoError(f, err)
	f.Add(golden)
	m, err := decodeManifest("x", golden)
	require.NoError(f, err)
	f.Add(plain(m))
	f.Fuzz(func(t *testing.T, data []byte) {
		bound.Check(t, len(data), func() {
			if m, err := decodeManifest("x", resumManifest(data)); err == nil {
				if again, err := decodeManifest("x", m.encode()); err != nil || again.SavedTokens() != m.SavedTokens() {
					t.Errorf("a decoded session does not survive encoding: %v", err)
				}
			}
		})
	})
}
