package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
)

const file = "cache/notes.index"

// prose returns a text of n words of a vocabulary in which some words are common.
func prose(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "w%dx", int(r.ExpFloat64()*300))
		if i%12 == 11 {
			b.WriteString(".\n\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// noteOf returns a note with a text.
func noteOf(t *testing.T, path, text string) *Note {
	t.Helper()
	n, err := MakeNote(path, []byte(text))
	require.NoError(t, err)
	return &n
}

// open opens the index of a file system.
func open(t *testing.T, fsys vfs.FS, o Options) *Index {
	t.Helper()
	x, err := Open(fsys, file, o)
	require.NoError(t, err)
	return x
}

// change runs change with a writer.
func change(t *testing.T, x *Index, change func(w *Writer)) {
	t.Helper()
	w, err := x.Begin()
	require.NoError(t, err)
	change(w)
	require.NoError(t, w.Close())
}

// search returns the hits for a text.
func search(t *testing.T, x *Index, text string) []Hit {
	t.Helper()
	hits, err := x.Search(Query{Text: text, Most: 20, PerNote: 3})
	require.NoError(t, err)
	return hits
}

// vectorOf returns a vector that follows from a key.
func vectorOf(key Key, dims int) []float32 {
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(key[:]), 1))
	x := make([]float32, dims)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// embed adds the vectors that a note's passages lack, and returns how many.
func embed(t *testing.T, w *Writer, path string) int {
	t.Helper()
	var keys []Key
	var vectors [][]float32
	for _, p := range w.Missing(path) {
		keys, vectors = append(keys, p.Key), append(vectors, vectorOf(p.Key, 40))
	}
	require.NoError(t, w.PutVectors(keys, vectors))
	return len(keys)
}

// TestSearchDoesNotDependOnHistory adds, changes and removes notes, opens the index again at times, and expects the same
// hits with the same scores as of an index of the notes that are left, words and vectors.
func TestSearchDoesNotDependOnHistory(t *testing.T) {
	r := testutil.Random(t)
	mem, o := vfs.NewMem(), Options{Model: "m"}
	x := open(t, mem, o)
	texts := map[string]string{}
	rewrites, generation := 0, uint64(0)
	for range 40 {
		change(t, x, func(w *Writer) {
			for range 5 {
				path := fmt.Sprintf("n%d.md", r.IntN(25))
				if r.IntN(4) == 0 {
					require.NoError(t, w.Remove(path))
					delete(texts, path)
					continue
				}
				texts[path] = prose(r, r.IntN(1500))
				require.NoError(t, w.Put(noteOf(t, path, texts[path])))
				embed(t, w, path)
			}
		})
		if x.generation != generation {
			generation, rewrites = x.generation, rewrites+1
		}
		if r.IntN(4) == 0 {
			require.NoError(t, x.Close())
			x = open(t, mem, o)
		}
	}
	require.Greater(t, rewrites, 2, "the file was never rewritten")
	fresh := open(t, vfs.NewMem(), o)
	change(t, fresh, func(w *Writer) {
		for path, text := range texts {
			require.NoError(t, w.Put(noteOf(t, path, text)))
			embed(t, w, path)
		}
	})
	for range 50 {
		q := Query{Text: prose(r, 1+r.IntN(8)), Most: 20, PerNote: 1 + r.IntN(3)}
		if r.IntN(2) == 0 {
			q.Vector = vectorOf(Key{byte(r.IntN(256))}, 40)
		}
		want, err := fresh.Search(q)
		require.NoError(t, err)
		got, err := x.Search(q)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NotEmpty(t, got)
	}
	a, b := x.Info(), fresh.Info()
	require.Equal(t, []int{b.Notes, b.Passages, b.Vectors}, []int{a.Notes, a.Passages, a.Vectors})
	require.Equal(t, b.Passages, b.Vectors)
}

// TestPowerCuts loses power at each operation of an update. The index then opens, has each note in its old or its new
// state, and the notes of the update before.
func TestPowerCuts(t *testing.T) {
	r := testutil.Random(t)
	old, changed := map[string]*Note{}, map[string]*Note{}
	for i := range 6 {
		path := fmt.Sprintf("n%d.md", i)
		old[path], changed[path] = noteOf(t, path, prose(r, 100)), noteOf(t, path, prose(r, 100))
	}
	update := func(fsys vfs.FS, notes map[string]*Note) (err error) {
		x, err := Open(fsys, file, Options{})
		if err != nil {
			return err
		}
		w, err := x.Begin()
		if err != nil {
			return err
		}
		for path, n := range notes {
			if path == "n5.md" && n == changed[path] {
				err = errors.Join(err, w.Remove(path))
				continue
			}
			err = errors.Join(err, w.Put(n))
		}
		return errors.Join(err, w.Close())
	}
	for fail := int64(0); ; fail++ {
		mem := vfs.NewMem()
		require.NoError(t, update(mem, old))
		var crashed *vfs.Mem
		broken := errors.New("no power")
		err := update(vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Index >= fail {
				if crashed == nil {
					crashed = mem.CrashClone(r.Float64(), uint64(fail))
				}
				return broken
			}
			return nil
		}), changed)
		if crashed == nil {
			require.NoError(t, err)
			require.Greater(t, fail, int64(15))
			return
		}
		require.Error(t, err)
		x := open(t, crashed, Options{})
		for path, hash := range x.Notes() {
			require.Contains(t, [][32]byte{old[path].Hash, changed[path].Hash}, hash, "at operation %d", fail)
		}
		require.GreaterOrEqual(t, len(x.Notes()), 5)
		require.NoError(t, update(crashed, changed))
		require.Len(t, open(t, crashed, Options{}).Notes(), 5)
	}
}

// TestAKillLosesNoFinishedNote ends a process behind each write, and in the middle of the next one.
func TestAKillLosesNoFinishedNote(t *testing.T) {
	r := testutil.Random(t)
	mem := vfs.NewMem()
	x := open(t, mem, Options{})
	w, err := x.Begin()
	require.NoError(t, err)
	var files [][]byte
	for i := range 5 {
		require.NoError(t, w.Put(noteOf(t, fmt.Sprintf("n%d.md", i), prose(r, 300))))
		b, err := vfs.ReadFile(mem, file, 1<<30)
		require.NoError(t, err)
		files = append(files, b)
	}
	for i, b := range files {
		for _, more := range []int{0, 1, frameBytes, frameBytes + 1, 100} {
			end := len(b)
			if i+1 < len(files) {
				b = files[i+1][:end+more]
			}
			killed := vfs.NewMem()
			require.NoError(t, killed.MkdirAll("cache"))
			require.NoError(t, vfs.WriteFile(killed, file, b))
			y := open(t, killed, Options{})
			require.Len(t, y.Notes(), i+1)
			change(t, y, func(w *Writer) { require.NoError(t, w.Put(noteOf(t, "last.md", "last"))) })
			require.Len(t, open(t, killed, Options{}).Notes(), i+2)
			b = b[:end]
		}
	}
}

// TestDamageCostsTheNotesThatItHits changes each byte of an index in turn. Every change is found, and costs the note in
// whose record it is, or those behind it.
func TestDamageCostsTheNotesThatItHits(t *testing.T) {
	mem := vfs.NewMem()
	x := open(t, mem, Options{})
	change(t, x, func(w *Writer) {
		for i := range 4 {
			require.NoError(t, w.Put(noteOf(t, fmt.Sprintf("n%d.md", i), fmt.Sprintf("word%d and more", i))))
		}
	})
	good, err := vfs.ReadFile(mem, file, 1<<20)
	require.NoError(t, err)
	lost := map[int]int{}
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0x10
		damaged := vfs.NewMem()
		require.NoError(t, damaged.MkdirAll("cache"))
		require.NoError(t, vfs.WriteFile(damaged, file, bad))
		y := open(t, damaged, Options{})
		require.Less(t, len(y.Notes()), 4, "byte %d", at)
		lost[4-len(y.Notes())]++
		for path := range y.Notes() {
			require.Len(t, search(t, y, "word"+path[1:2]), 1)
		}
		change(t, y, func(w *Writer) {
			for i := range 4 {
				require.NoError(t, w.Put(noteOf(t, fmt.Sprintf("n%d.md", i), fmt.Sprintf("word%d and more", i))))
			}
		})
		require.Len(t, open(t, damaged, Options{}).Notes(), 4)
	}
	require.Greater(t, lost[1], len(good)/2, "most damage costs one note")
}

// TestWritersSeeEachOther changes an index through two handles in turn.
func TestWritersSeeEachOther(t *testing.T) {
	r := testutil.Random(t)
	mem := vfs.NewMem()
	x, y := open(t, mem, Options{}), open(t, mem, Options{})
	for i := range 60 {
		change(t, x, func(w *Writer) {
			require.Len(t, x.Notes(), min(2*i, 10))
			require.NoError(t, w.Put(noteOf(t, fmt.Sprintf("n%d.md", 2*i%10), prose(r, 800))))
		})
		change(t, y, func(w *Writer) {
			require.NoError(t, w.Put(noteOf(t, fmt.Sprintf("n%d.md", (2*i+1)%10), prose(r, 800))))
		})
	}
	require.Equal(t, y.Notes(), func() map[string][32]byte { change(t, x, func(*Writer) {}); return x.Notes() }())
	require.Less(t, y.Info().Bytes, int64(1<<20), "the file was never rewritten")
	w, err := x.Begin()
	require.NoError(t, err)
	_, err = vfs.Lock(mem, file+".lock")
	require.ErrorIs(t, err, vfs.ErrLocked)
	require.NoError(t, w.Close())
}

// room is a ledger with a limit.
type room struct{ limit, held, most int64 }

var errFull = errors.New("full")

func (r *room) Resize(bytes int64) error {
	if bytes > r.limit {
		return errFull
	}
	r.held, r.most = bytes, max(r.most, bytes)
	return nil
}

// TestMemoryIsReserved fills an index, which reserves at least what its slabs and blocks take, until its ledger is full.
func TestMemoryIsReserved(t *testing.T) {
	r := testutil.Random(t)
	ledger := &room{limit: 4 << 20}
	mem := vfs.NewMem()
	x := open(t, mem, Options{Room: ledger, Model: "m"})
	w, err := x.Begin()
	require.NoError(t, err)
	for i := 0; ; i++ {
		path := fmt.Sprintf("n%d.md", i)
		n := noteOf(t, path, prose(r, 2000))
		if err = w.Put(n); err == nil {
			require.GreaterOrEqual(t, ledger.held, x.held())
			err = w.PutVectors([]Key{n.Passages[0].Key}, [][]float32{vectorOf(n.Passages[0].Key, 384)})
		}
		if err != nil {
			break
		}
		require.Less(t, i, 10000)
	}
	require.ErrorIs(t, err, errFull)
	require.Greater(t, ledger.most, int64(3<<20))
	require.NoError(t, w.Close())
	require.NoError(t, x.Close())
	require.Zero(t, ledger.held)
	_, err = Open(mem, file, Options{Room: &room{limit: 2 << 20}})
	require.ErrorIs(t, err, errFull)
}

// TestForeignFilesAreReplaced opens files of other programs and versions.
func TestForeignFilesAreReplaced(t *testing.T) {
	future := header(7)
	binary.LittleEndian.PutUint32(future[8:], version+1)
	for name, content := range map[string][]byte{"empty": {}, "text": []byte(strings.Repeat("text ", 20)), "future": future, "no records": header(7)} {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("cache"))
		require.NoError(t, vfs.WriteFile(mem, file, content))
		told := 0
		x := open(t, mem, Options{Notify: func(string) { told++ }})
		require.Equal(t, name != "no records", told > 0, name)
		change(t, x, func(w *Writer) { require.NoError(t, w.Put(noteOf(t, "a.md", "some text"))) })
		require.Len(t, search(t, open(t, mem, Options{}), "text"), 1)
	}
}

// TestTheEncoderSurvivesRewrites remembers encoders in turn. A rewrite keeps the last one and its vectors, also of an index that is
// opened for none, and leaves out those of the others.
func TestTheEncoderSurvivesRewrites(t *testing.T) {
	r := testutil.Random(t)
	mem := vfs.NewMem()
	encoder, err := readEncoder(mem, file)
	require.NoError(t, err)
	require.Zero(t, encoder, "there is no file")
	one, other := Encoder{"one", "models/one", "{}"}, Encoder{"other", "models/other", ""}
	x := open(t, mem, Options{Model: "one"})
	change(t, x, func(w *Writer) {
		require.NoError(t, w.PutEncoder(one))
		for i := range 10 {
			path := fmt.Sprintf("n%d.md", i)
			require.NoError(t, w.Put(noteOf(t, path, prose(r, 1500))))
			embed(t, w, path)
		}
	})
	require.Equal(t, one, x.Encoder())
	count := func(model string) int { return open(t, mem, Options{Model: model}).Info().Vectors }
	all := count("one")
	require.Greater(t, all, 50)

	x = open(t, mem, Options{})
	generation := x.generation
	for i := 0; x.generation == generation; i++ {
		require.Less(t, i, 1000, "the file was never rewritten")
		change(t, x, func(w *Writer) { require.NoError(t, w.Put(noteOf(t, "more.md", prose(r, 1500)))) })
	}
	require.Equal(t, one, x.Encoder())
	require.Equal(t, all, count("one"))

	x = open(t, mem, Options{Model: "other"})
	change(t, x, func(w *Writer) { require.NoError(t, w.PutEncoder(other)) })
	require.Equal(t, all, count("one"), "until the file is rewritten")
	generation = x.generation
	for i := 0; x.generation == generation; i++ {
		require.Less(t, i, 1000, "the file was never rewritten")
		change(t, x, func(w *Writer) { require.NoError(t, w.Put(noteOf(t, "more.md", prose(r, 1500)))) })
	}
	require.Zero(t, count("one"))
	encoder, err = readEncoder(mem, file)
	require.NoError(t, err)
	require.Equal(t, other, encoder)
	require.NoError(t, vfs.WriteFile(mem, file, []byte("something else")))
	encoder, err = readEncoder(mem, file)
	require.NoError(t, err)
	require.Zero(t, encoder)
}

// TestAFullDiskIsReportedOnce: the error of a write is that of the note, and closing does not repeat it. What was written before stays.
func TestAFullDiskIsReportedOnce(t *testing.T) {
	mem, full := vfs.NewMem(), false
	fsys := vfs.NewFaulty(mem, func(op vfs.Op) error {
		if full && op.Kind == vfs.OpWrite {
			return errFull
		}
		return nil
	})
	x, err := Open(fsys, file, Options{})
	require.NoError(t, err)
	w, err := x.Begin()
	require.NoError(t, err)
	require.NoError(t, w.Put(noteOf(t, "a.md", "fox")))
	full = true
	require.ErrorIs(t, w.Put(noteOf(t, "b.md", "hen")), errFull)
	require.ErrorIs(t, w.Put(noteOf(t, "c.md", "hen")), errFull)
	require.NoError(t, w.Close())
	require.Len(t, open(t, mem, Options{}).Notes(), 1)
}

// TestNotesOfPropertiesAreFound indexes notes whose text is empty: by title, alias and tag. Front matter that is no text is refused.
func TestNotesOfPropertiesAreFound(t *testing.T) {
	x := open(t, vfs.NewMem(), Options{})
	text := "---\naliases: [Egret]\ntags: bird\n---\n"
	change(t, x, func(w *Writer) {
		require.NoError(t, w.Put(noteOf(t, "heron.md", text)))
		require.NoError(t, w.Put(noteOf(t, "empty.md", "")))
		require.NoError(t, w.Put(noteOf(t, "text.md", "---\naliases: [Egret]\n---\nA bird.")))
	})
	hits := search(t, x, "egret")
	require.Len(t, hits, 2)
	for _, hit := range hits {
		if hit.Path == "heron.md" {
			require.Equal(t, strings.TrimSpace(text), text[hit.Start:hit.End])
		} else {
			require.Equal(t, 25, hit.Start, "the front matter is no passage of a note with text")
		}
	}
	require.Len(t, search(t, x, "heron"), 1)
	for _, bad := range []string{"---\ntitle: caf\xe9\n---\ntext", "---\ntitle: \x00\n---\n"} {
		_, err := MakeNote("a.md", []byte(bad))
		require.Error(t, err)
	}
}

// FuzzRecords applies records with any content.
func FuzzRecords(f *testing.F) {
	n, _ := MakeNote("a.md", []byte("# T\n#tag some text"))
	f.Add(uint32(noteRecord), appendNote(nil, &n))
	f.Add(uint32(removalRecord), appendText(nil, "a.md"))
	row, _ := QuantizeVector(nil, []float32{1, 2})
	f.Add(uint32(vectorRecord), append(append(binary.AppendUvarint(appendText(nil, "m"), 2), make([]byte, KeyBytes)...), row...))
	f.Add(uint32(encoderRecord), appendEncoder(nil, Encoder{"m", "models/m", "{}"}))
	f.Fuzz(func(t *testing.T, kind uint32, content []byte) {
		x := open(t, vfs.NewMem(), Options{Model: "m"})
		_ = x.apply(noteRecord, appendNote(nil, &n), 0)
		_ = x.apply(kind, content, 0)
		for _, vector := range [][]float32{nil, {1, 1}} {
			hits, err := x.Search(Query{Text: "some text", Vector: vector, Most: 3})
			if err == nil && kind != noteRecord && kind != removalRecord {
				require.NotEmpty(t, hits)
			}
		}
	})
}
