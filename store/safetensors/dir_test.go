package safetensors

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

func sample() []TensorData {
	return []TensorData{
		{Name: "embed", Type: quant.BF16, Shape: []int{3, 4}, Data: pattern(24, 1)},
		{Name: "näme \"quoted\"", Type: quant.F32, Shape: []int{2}, Data: pattern(8, 2)},
		{Name: "scalar", Type: quant.F16, Data: pattern(2, 3)},
		{Name: "empty", Type: quant.F32, Shape: []int{0, 7}},
		{Name: "last", Type: quant.F16, Shape: []int{1, 2, 3}, Data: pattern(12, 4)},
	}
}

func pattern(n int, seed byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i)*7 + seed
	}
	return p
}

func requireSample(t *testing.T, d *Dir) {
	t.Helper()
	for _, want := range sample() {
		got, ok := d.Tensor(want.Name)
		require.True(t, ok, want.Name)
		require.Equal(t, want.Type, got.Type)
		require.Equal(t, append([]int{}, want.Shape...), got.Shape)
		data := make([]byte, got.Size)
		_, err := d.ReadAt(got, data, 0)
		require.NoError(t, err)
		require.Equal(t, append([]byte{}, want.Data...), data)
	}
}

func TestRoundTrip(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("dir"))
	require.NoError(t, Write(fsys, "dir/model.safetensors", sample()))
	for _, path := range []string{"dir", "dir/model.safetensors"} {
		d, err := Open(fsys, path)
		require.NoError(t, err)
		require.Equal(t, []string{"dir/model.safetensors"}, d.Files())
		require.Len(t, d.Tensors(), len(sample()))
		requireSample(t, d)
		require.NoError(t, d.Close())
	}
}

func TestOpenAcceptsUnusualHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		data   int
		count  int
	}{
		"no tensor":             {`{}`, 0, 0},
		"padding":               {`{}      `, 0, 0},
		"only metadata":         {`{"__metadata__":{"format":"pt","":""}}`, 0, 0},
		"white space":           {"{ \"a\" :\t{\n\"dtype\" : \"F32\" , \"shape\" : [ 1 , 1 ] , \"data_offsets\" : [ 0 , 4 ] } }", 4, 1},
		"fields in other order": {`{"a":{"data_offsets":[0,4],"shape":[],"dtype":"F32"}}`, 4, 1},
		"tensors not in order":  {`{"a":{"dtype":"F16","shape":[1],"data_offsets":[2,4]},"b":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}}`, 4, 2},
		"empty tensors":         {`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"c":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]}}`, 4, 3},
		"escapes":               {`{"\u00e4\ud83d\ude00\n\/":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4, 1},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := openBytes(t, file(c.header, c.data))
			require.NoError(t, err)
			require.Len(t, d.Tensors(), c.count)
			if name == "escapes" {
				require.Equal(t, "ä😀\n/", d.Tensors()[0].Name)
			}
		})
	}
}

// TestAuxiliaryTensors checks that weights beside masks and positions can be read.
func TestAuxiliaryTensors(t *testing.T) {
	header := `{"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},"mask":{"dtype":"BOOL","shape":[4],"data_offsets":[16,20]},"w":{"dtype":"F32","shape":[1],"data_offsets":[20,24]}}`
	d, err := openBytes(t, file(header, 24))
	require.NoError(t, err)
	require.Len(t, d.Tensors(), 1)
	_, ok := d.Tensor("ids")
	require.False(t, ok)
	for name, want := range map[string]string{"ids": "I64", "mask": "BOOL"} {
		a, ok := d.Auxiliary(name)
		require.True(t, ok)
		require.Equal(t, want, a.Dtype)
		require.Equal(t, name, a.Name)
		data := make([]byte, a.Size)
		_, err := d.ReadAt(a.Tensor, data, 0)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"ids", "mask"}, d.Auxiliaries())
	_, ok = d.Auxiliary("w")
	require.False(t, ok)
}

func TestDirectoryWithoutModel(t *testing.T) {
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("dir"))
	_, err := Open(fsys, "dir")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "open dir: neither model.safetensors nor model.safetensors.index.json")
	_, err = Open(fsys, "none")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWriteRejectsInvalidInput(t *testing.T) {
	for name, c := range map[string]struct {
		tensors []TensorData
		reason  string
	}{
		"quantized":    {[]TensorData{{Name: "x", Type: quant.Q8_0, Shape: []int{32}, Data: make([]byte, 34)}}, "has no dtype for"},
		"wrong length": {[]TensorData{{Name: "x", Type: quant.F32, Shape: []int{2}, Data: make([]byte, 4)}}, "4 bytes do not match"},
		"twice":        {[]TensorData{{Name: "x", Type: quant.F32, Shape: []int{0}}, {Name: "x", Type: quant.F32, Shape: []int{0}}}, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, Write(vfs.NewMem(), "m", c.tensors), c.reason)
		})
	}
}

// TestEveryReadErrorSurfaces fails each operation of opening an indexed model in turn and
// checks that every opened file is closed.
func TestEveryReadErrorSurfaces(t *testing.T) {
	fsys := indexed(t)
	injected := errors.New("injected")
	for k := int64(0); ; k++ {
		open := 0
		failed, opening := false, true
		d, err := Open(vfs.NewFaulty(fsys, func(op vfs.Op) error {
			if opening && op.Index == k {
				failed = true
				if op.Kind == vfs.OpClose {
					open--
				}
				return injected
			}
			switch op.Kind {
			case vfs.OpOpen:
				open++
			case vfs.OpClose:
				open--
			}
			return nil
		}), "dir")
		opening = false
		if !failed {
			require.NoError(t, err)
			require.NoError(t, d.Close())
			require.Zero(t, open)
			return
		}
		if err == nil { // only closing the index file failed
			require.NoError(t, d.Close())
		} else {
			require.ErrorIs(t, err, injected)
		}
		require.Zero(t, open, "operation %d left files open", k)
	}
}

func TestOpensReferenceModels(t *testing.T) {
	for _, path := range testutil.Glob(t, "fixtures", "*/model.safetensors") {
		d, err := Open(vfs.OS(), filepath.Dir(path))
		require.NoError(t, err)
		require.NotEmpty(t, d.Tensors())
		require.NoError(t, d.Close())
	}
}
