package w8a8

import (
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// sample returns a calibration of two inputs. The second one has no columns.
func sample() *Index {
	return &Index{
		Model: "00ff", CreatedBy: "a test", Tokens: 7, OutlierFraction: 0.01,
		Inputs: []Input{
			{
				Name: "a", Cols: 5, Scale: 0.5, ClippedScale: 1, ClippedErrorRatio: 2, Max: 100, Elements: 35, Outliers: 4, Hot: 1,
				Channels: []Channel{{3, 3}, {0, 1}},
				Matrices: []Matrix{{"a", 3, "BF16", WriteColumns}, {"b", 2, "F32", WriteColumns}},
			},
			{Name: "c", Cols: 2, Scale: 1, ClippedScale: 1, ClippedErrorRatio: 1, Channels: []Channel{}, Matrices: []Matrix{{"c", 4, "F16", 0}}},
		},
	}
}

// element returns a value that every float type represents exactly.
func element(m *Matrix, channel, row int) float32 { return float32(m.Rows*64 + channel*8 + row) }

func write(t *testing.T, fsys vfs.FS, x *Index) {
	t.Helper()
	require.NoError(t, Write(fsys, "m.w8a8", x, func(_ *Input, m *Matrix, first, count int, dst []float32) error {
		for c := range count {
			for r := range m.Rows {
				dst[c*m.Rows+r] = element(m, first+c, r)
			}
		}
		return nil
	}))
}

func TestRoundTrip(t *testing.T) {
	fsys, want := vfs.NewMem(), sample()
	write(t, fsys, want)
	f, err := Open(fsys, "m.w8a8")
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, *want, f.Index)
	require.InDelta(t, 100/(127*0.5), f.Inputs[0].Importance(), 1e-9)
	require.Equal(t, 0.75, f.Inputs[0].HotFraction())
	require.Zero(t, f.Inputs[1].Matrices[0].ColumnsAt, "these columns are not stored")
	for j := range f.Inputs[0].Matrices {
		m := &f.Inputs[0].Matrices[j]
		got, raw := make([]float32, m.Rows), make([]byte, m.ColumnBytes())
		for channel := range 5 {
			require.NoError(t, f.Column(m, channel, got, raw))
			for r, v := range got {
				require.Equal(t, element(m, channel, r), v)
			}
		}
		require.Zero(t, testutil.AllocsPerRun(10, 0, func() {
			if err := f.Column(m, 2, got, raw); err != nil {
				t.Error(err)
			}
		}))
	}
}

// TestWriteFails checks that a failed Write leaves no file.
func TestWriteFails(t *testing.T) {
	fsys, broken := vfs.NewMem(), errors.New("no such row")
	err := Write(fsys, "m.w8a8", sample(), func(*Input, *Matrix, int, int, []float32) error { return broken })
	require.ErrorIs(t, err, broken)
	list, err := fsys.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, list)
	x := sample()
	x.Inputs[0].Scale = 0
	require.ErrorContains(t, Write(fsys, "m.w8a8", x, nil), "inputs[0]")
}

// TestDamage applies one change to a valid file at a time.
func TestDamage(t *testing.T) {
	fsys := vfs.NewMem()
	write(t, fsys, sample())
	valid, err := vfs.ReadFile(fsys, "m.w8a8", 1<<20)
	require.NoError(t, err)
	updateChecksum := func(b []byte) { binary.LittleEndian.PutUint64(b[checksummedBytes:], checksum(b[:checksummedBytes])) }
	for _, c := range []struct {
		name, want string
		kind       error
		change     func(b []byte) []byte
	}{
		{"empty", "header: is not the header of a calibration", store.ErrFormat, func([]byte) []byte { return nil }},
		{"another file", "llmrun calibrate", store.ErrFormat, func(b []byte) []byte { b[0]++; return b }},
		{"version", "version: 9 is unknown", store.ErrUnsupported, func(b []byte) []byte { b[8] = 9; updateChecksum(b); return b }},
		{"header", "header: is damaged", store.ErrFormat, func(b []byte) []byte { b[33]++; return b }},
		{"shorter", "length: the file has", store.ErrTruncated, func(b []byte) []byte { return b[:len(b)-1] }},
		{"index length", "index: has", store.ErrFormat, func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[16:], 1<<60)
			updateChecksum(b)
			return b
		}},
		{"index", "index: is damaged", store.ErrFormat, func(b []byte) []byte { b[headerBytes+20]++; return b }},
		{"no JSON", "index", store.ErrFormat, func(b []byte) []byte {
			index := b[headerBytes:][:binary.LittleEndian.Uint64(b[16:])]
			index[0] = '['
			binary.LittleEndian.PutUint64(b[24:], checksum(index))
			updateChecksum(b)
			return b
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, vfs.WriteFile(fsys, "bad", c.change(append([]byte(nil), valid...))))
			_, err := Open(fsys, "bad")
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "bad")
		})
	}

	valid[len(valid)-1]++
	require.NoError(t, vfs.WriteFile(fsys, "bad", valid))
	f, err := Open(fsys, "bad")
	require.NoError(t, err, "Open does not read the columns")
	defer f.Close()
	m := &f.Inputs[0].Matrices[1]
	raw := make([]byte, m.ColumnBytes())
	require.NoError(t, f.Column(m, 3, make([]float32, 2), raw))
	err = f.Column(m, 4, make([]float32, 2), raw)
	require.ErrorIs(t, err, store.ErrFormat)
	require.ErrorContains(t, err, "column 4 of b: is damaged")
}

// TestIndexIsNotTrusted writes invalid values into an index.
func TestIndexIsNotTrusted(t *testing.T) {
	for want, change := range map[string]func(x *Index){
		"cols":         func(x *Index) { x.Inputs[0].Cols = 0 },
		"scales":       func(x *Index) { x.Inputs[0].ClippedScale = -1 },
		"hot":          func(x *Index) { x.Inputs[0].Hot = 3 },
		"channels":     func(x *Index) { x.Inputs[0].Channels[1].Channel = 5 },
		"type":         func(x *Index) { x.Inputs[0].Matrices[0].Type = "Q4_0" },
		"rows":         func(x *Index) { x.Inputs[0].Matrices[0].Rows = 1 << 40 },
		"at":           func(x *Index) { x.Inputs[0].Matrices[0].ColumnsAt = 1 << 20 },
		"occurs twice": func(x *Index) { x.Inputs[1].Matrices[0].Name = "a" },
	} {
		x := sample()
		x.assignOffsets(100)
		field, _ := x.check(1 << 20)
		require.Empty(t, field)
		change(x)
		field, reason := x.check(1 << 20)
		require.Contains(t, field+" "+reason, want)
	}
}

// TestIndexTakesLittleMemory opens indexes whose short JSON expands to much more memory:
// Open must reject them before it allocates that memory.
func TestIndexTakesLittleMemory(t *testing.T) {
	for want, index := range map[string]string{
		"inputs[0].cols: 0 is out of range":   "{\"inputs\":[" + strings.Repeat("{},", 1<<20) + "{}]}",
		"inputs[0]: has 6291473 bytes, more":  "{\"inputs\":[{\"matrices\":[" + strings.Repeat("{},", 2<<20) + "{}]}]}",
		"inputs: is not a list":               "{\"inputs\":{}}",
		"inputs[0]: json: cannot unmarshal":   "{\"inputs\":[[]]}",
		"inputs[1].cols: 0 is out of range":   "{\"inputs\":[{\"cols\":1,\"scale\":1,\"alone\":1},{}]}",
		"index: json: cannot unmarshal array": "[]",
	} {
		fsys := vfs.NewMem()
		require.NoError(t, vfs.WriteFile(fsys, "f", append(header([]byte(index), int64(headerBytes+len(index))), index...)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(fsys, "f")
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, want)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16*len(index)+1<<16))
	}
}

func FuzzOpen(f *testing.F) {
	fsys := vfs.NewMem()
	x := sample()
	if err := Write(fsys, "m.w8a8", x, func(*Input, *Matrix, int, int, []float32) error { return nil }); err != nil {
		f.Fatal(err)
	}
	data, err := vfs.ReadFile(fsys, "m.w8a8", 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	seed := string(data[headerBytes:][:binary.LittleEndian.Uint64(data[16:])])
	f.Add([]byte(seed))
	f.Fuzz(func(t *testing.T, index []byte) {
		// The bytes after the index suffice for the columns of the seed.
		head := header(index, int64(headerBytes+len(index)+len(data)))
		file := append(append(head, index...), make([]byte, len(data))...)
		fsys := vfs.NewMem()
		if err := vfs.WriteFile(fsys, "f", file); err != nil {
			t.Fatal(err)
		}
		c, err := Open(fsys, "f")
		if string(index) == seed && err != nil {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		for i := range c.Inputs {
			for j := range c.Inputs[i].Matrices {
				m := &c.Inputs[i].Matrices[j]
				if m.ColumnsAt == 0 {
					continue
				}
				_ = c.Column(m, c.Inputs[i].Cols-1, make([]float32, m.Rows), make([]byte, m.ColumnBytes()))
			}
		}
		_ = c.Close()
	})
}

var update = flag.Bool("update", false, "write the golden file anew")

// TestGolden opens a calibration that an earlier program of this version wrote, and writes it
// again: equal contents give equal files.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "version1.w8a8")
	mem, want := vfs.NewMem(), sample()
	write(t, mem, want) // completes want
	written, err := vfs.ReadFile(mem, "m.w8a8", 1<<20)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, written, 0o644))
	}
	f, err := Open(vfs.OS(), path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, *want, f.Index)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, data, written)
}
