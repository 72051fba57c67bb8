package modelfile_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestModelsOfDirectory lists what a directory holds, and finds the one of them that opens: the
// directory itself before a GGUF file, and the first part of a split one. A pack must be named.
func TestModelsOfDirectory(t *testing.T) {
	for _, test := range []struct {
		names, models, opens []string
	}{
		{[]string{"b.gguf", "a.gguf", "c.txt"}, []string{"m/a.gguf", "m/b.gguf"}, []string{"m/a.gguf"}},
		{[]string{"a-00002-of-00002.gguf", "a-00001-of-00002.gguf"}, []string{"m/a-00001-of-00002.gguf"}, []string{"m/a-00001-of-00002.gguf", "m/a-00002-of-00002.gguf"}},
		{[]string{"a.gguf", "config.json", "model.safetensors", "p.pack"}, []string{"m/a.gguf", "m", "m/p.pack"}, []string{"m/config.json", "m/model.safetensors"}},
		{[]string{"p.pack"}, []string{"m/p.pack"}, nil},
		{[]string{"mmproj-q.gguf", "q.gguf"}, []string{"m/mmproj-q.gguf", "m/q.gguf"}, []string{"m/q.gguf"}},
		{[]string{"A-MMPROJ-f16.gguf"}, []string{"m/A-MMPROJ-f16.gguf"}, []string{"m/A-MMPROJ-f16.gguf"}},
		{[]string{"c.txt"}, nil, nil},
	} {
		fsys := vfs.NewMem()
		require.NoError(t, fsys.MkdirAll("m/d.gguf"))
		for _, name := range test.names {
			require.NoError(t, vfs.WriteFile(fsys, "m/"+name, []byte("x")))
		}
		models, err := modelfile.Models(fsys, "m")
		require.Equal(t, test.models, models)
		if test.models == nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
		}
		files, err := (&modelfile.Files{Path: "m", FS: fsys}).SourceFiles()
		require.Equal(t, test.opens, files)
		if test.opens == nil {
			require.ErrorIs(t, err, fs.ErrNotExist)
		} else {
			require.NoError(t, err)
		}
	}
}

// heldBytes is a meter without a limit.
type heldBytes int64

func (h *heldBytes) Reserve(n int64) error { *h += heldBytes(n); return nil }
func (h *heldBytes) Release(n int64)       { *h -= heldBytes(n) }
func (h *heldBytes) Held() int64           { return int64(*h) }

// TestLanguageModelOfDirectory opens the language model of a directory, whatever the names of the files beside it, and
// returns what it has counted for the headers of the others.
func TestLanguageModelOfDirectory(t *testing.T) {
	for _, beside := range [][2]string{
		{"general.architecture", "clip"}, {"general.type", "mmproj"}, {"general.type", "adapter"}, {"general.type", "imatrix"},
	} {
		fsys := vfs.NewMem()
		require.NoError(t, fsys.MkdirAll("m"))
		other, model := modeltest.TinyGGUF(), modeltest.TinyGGUF()
		other.Set(beside[0], beside[1])
		require.NoError(t, gguf.Write(fsys, "m/a-vision.gguf", other.Keys, other.Tensors))
		require.NoError(t, gguf.Write(fsys, "m/b.gguf", model.Keys, model.Tensors))
		held := map[string]heldBytes{}
		for _, path := range []string{"m/b.gguf", "m"} {
			var meter heldBytes
			f, err := modelfile.Open(vfs.Metered(fsys, &meter), path)
			require.NoError(t, err, beside)
			require.Equal(t, "m/b.gguf", f.Source.Files()[0])
			held[path] = meter
			require.NoError(t, f.Close())
			require.Zero(t, meter)
		}
		require.Positive(t, held["m"])
		require.Equal(t, held["m/b.gguf"], held["m"])
	}
}
