package store

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		typ   quant.Type
		shape []int
		size  int64
		fits  bool
	}{
		{"scalar", quant.F16, nil, 2, true},
		{"matrix", quant.F32, []int{3, 5}, 60, true},
		{"blocks", quant.Q4_K, []int{2, 512}, 576, true},
		{"no rows", quant.F32, []int{0, 5}, 0, true},
		{"largest", quant.F16, []int{1 << 30, 1 << 31}, 1 << 62, true},
		{"beyond int64", quant.F32, []int{1 << 30, 1 << 31}, 0, false},
		{"beyond uint64", quant.F32, []int{1 << 40, 1 << 40}, 0, false},
		{"negative", quant.F32, []int{-1, 4}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			size, fits, err := Bytes(c.typ, c.shape)
			require.NoError(t, err)
			require.Equal(t, c.fits, fits)
			require.Equal(t, c.size, size)
		})
	}
	_, _, err := Bytes(quant.Q8_0, []int{2, 33})
	require.ErrorContains(t, err, "not a whole number of Q8_0 blocks")
	_, _, err = Bytes(quant.Invalid, []int{1})
	require.Error(t, err)
}

func TestTensorRowsAndCols(t *testing.T) {
	for _, c := range []struct {
		shape      []int
		rows, cols int
	}{{nil, 1, 1}, {[]int{7}, 1, 7}, {[]int{2, 3}, 2, 3}, {[]int{4, 2, 3}, 8, 3}} {
		tensor := Tensor{Shape: c.shape}
		require.Equal(t, c.rows, tensor.Rows())
		require.Equal(t, c.cols, tensor.Cols())
	}
}

// openFiles returns two files of 100 bytes each. Byte i has the value i.
func openFiles(t *testing.T) []vfs.File {
	t.Helper()
	fsys := vfs.NewMem()
	data := make([]byte, 100)
	for i := range data {
		data[i] = byte(i)
	}
	var files []vfs.File
	for _, name := range []string{"a", "b"} {
		require.NoError(t, vfs.WriteFile(fsys, name, data))
		f, err := fsys.Open(name)
		require.NoError(t, err)
		files = append(files, f)
	}
	return files
}

func TestIndexReadsTensors(t *testing.T) {
	files := openFiles(t)
	x, err := NewIndex(files, make([]vfs.Stamp, len(files)), []Tensor{
		{Name: "second", File: 1, Offset: 50, Size: 50},
		{Name: "first", File: 1, Offset: 0, Size: 50},
		{Name: "other file", File: 0, Offset: 20, Size: 60},
		{Name: "empty", File: 1, Offset: 50},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, x.Files())
	require.Equal(t, "second", x.Tensors()[0].Name, "file order is preserved")
	_, ok := x.Tensor("third")
	require.False(t, ok)
	tensor, ok := x.Tensor("second")
	require.True(t, ok)
	p := make([]byte, 2)
	n, err := x.ReadAt(tensor, p, 48)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, []byte{98, 99}, p)
	for _, off := range []int64{-1, 49, 51, math.MaxInt64} {
		_, err = x.ReadAt(tensor, p, off)
		require.ErrorContains(t, err, `outside tensor "second" of 50 bytes`)
	}
	_, err = x.ReadAt(Tensor{Name: "stray", File: 2, Size: 10}, p, 0)
	require.ErrorContains(t, err, "another source")
	_, err = x.ReadAt(Tensor{Name: "shrunk", File: 0, Offset: 99, Size: 10}, p, 0)
	require.ErrorIs(t, err, ErrTruncated)
	require.ErrorContains(t, err, `a at offset 100: tensor "shrunk"`)
	require.NoError(t, x.Close())
	require.Error(t, x.Close(), "the second Close reports that the files are closed")
}

func TestNewIndexRejectsInvalidTensors(t *testing.T) {
	files := openFiles(t)
	for _, c := range []struct {
		name, reason string
		tensors      []Tensor
	}{
		{"empty name", "the name is empty", []Tensor{{Name: ""}}},
		{"NUL", "NUL byte", []Tensor{{Name: "a\x00"}}},
		{"path", "path out of its directory", []Tensor{{Name: "../a"}}},
		{"path of windows", "path out of its directory", []Tensor{{Name: `..\a`}}},
		{"twice", "occurs twice", []Tensor{{Name: "x", Size: 1}, {Name: "x", File: 1, Size: 1}}},
		{"overlap", `overlap those of tensor "x"`, []Tensor{{Name: "y", Offset: 9, Size: 5}, {Name: "x", Size: 10}}},
		{"one inside another", `overlap those of tensor "x"`, []Tensor{{Name: "x", Size: 10}, {Name: "y", Offset: 2, Size: 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewIndex(files, make([]vfs.Stamp, len(files)), c.tensors)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorContains(t, err, c.reason)
		})
	}
	_, err := NewIndex(files, make([]vfs.Stamp, len(files)), []Tensor{{Name: "x", Size: 10}, {Name: "y", File: 1, Size: 10}})
	require.NoError(t, err, "equal offsets in two files do not overlap")
}

func TestFormatError(t *testing.T) {
	err := &FormatError{Path: "m.gguf", Off: 12, Field: "version", Reason: "is 9", Hint: "use 3", Kind: ErrUnsupported}
	require.Equal(t, "m.gguf at offset 12: version: is 9 (use 3)", err.Error())
	require.Equal(t, "m.gguf: is 9", (&FormatError{Path: "m.gguf", Off: NoOffset, Reason: "is 9"}).Error())
	require.ErrorIs(t, err, ErrUnsupported)
	require.NotErrorIs(t, err, ErrFormat)
	cut := error(&FormatError{Kind: ErrTruncated})
	require.ErrorIs(t, cut, ErrTruncated)
	require.ErrorIs(t, cut, ErrFormat, "a truncated file matches ErrFormat")
	require.False(t, errors.Is(&FormatError{Kind: ErrFormat}, ErrTruncated))
	changed := Changed("m.gguf", 12, "tensor \"x\"")
	require.ErrorIs(t, changed, ErrChanged)
	require.ErrorIs(t, changed, ErrFormat, "bytes of two versions make no file")
	require.ErrorContains(t, changed, "m.gguf at offset 12")
}

func TestSum64(t *testing.T) {
	a, b := []byte("ab"), []byte("c")
	require.Equal(t, Sum64(1, []byte("abc")), Sum64(1, a, b), "the parts are concatenated")
	require.NotEqual(t, Sum64(1, a), Sum64(2, a))
	require.NotZero(t, Sum64(1))
	h := Hash64(1)
	_, _ = h.Write(a)
	_, _ = h.Write(b)
	require.Equal(t, Sum64(1, a, b), h.Sum64())
	require.EqualValues(t, 0x44bc2cf5ad770999, Sum64(0, []byte("abc")), "the published XXH64 test vector")
	require.Zero(t, testutil.AllocsPerRun(10, 0, func() { Sum64(1, a, b) }))
}
