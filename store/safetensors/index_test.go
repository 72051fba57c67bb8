package safetensors

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/bound"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	shardA = "model-00001-of-00002.safetensors"
	shardB = "model-00002-of-00002.safetensors"
)

// indexed returns the sample in two files.
func indexed(t *testing.T) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	require.NoError(t, fsys.MkdirAll("dir"))
	require.NoError(t, Write(fsys, "dir/"+shardA, sample()[:2]))
	require.NoError(t, Write(fsys, "dir/"+shardB, sample()[2:]))
	var pairs []string
	for i, tensor := range sample() {
		pairs = append(pairs, fmt.Sprintf("%q:%q", tensor.Name, []string{shardA, shardB}[min(i/2, 1)]))
	}
	text := `{"metadata": {"total_size": 46, "more": [1.5e3, {"x": null}]}, "weight_map": {` + strings.Join(pairs, ",") + "}}\n"
	require.NoError(t, vfs.WriteFile(fsys, "dir/"+indexName, []byte(text)))
	return fsys
}

func TestOpensIndexedModel(t *testing.T) {
	fsys := indexed(t)
	for _, path := range []string{"dir", "dir/" + indexName} {
		d, err := Open(fsys, path)
		require.NoError(t, err)
		require.Equal(t, []string{"dir/" + shardA, "dir/" + shardB}, d.Files())
		requireSample(t, d)
		require.NoError(t, d.Close())
	}
}

func TestOpenRejectsMalformedIndex(t *testing.T) {
	for _, c := range []struct{ name, text, reason string }{
		{"empty", "", "the end where '{'"},
		{"list", "[]", `'[' where '{'`},
		{"no map", "{}", "weight_map: is missing or empty"},
		{"empty map", `{"weight_map":{}}`, "weight_map: is missing or empty"},
		{"map twice", `{"weight_map":{"a":"x"},"weight_map":{}}`, "weight_map occurs twice"},
		{"tensor twice", `{"weight_map":{"a":"x","b":"y","a":"y"}}`, `tensor "a" occurs twice`},
		{"number for a file", `{"weight_map":{"a":1}}`, `'1' where '"'`},
		{"parent directory", `{"weight_map":{"a":"../../x.safetensors"}}`, `file "../../x.safetensors" is outside`},
		{"hidden parent directory", `{"weight_map":{"a":"sub/../../x.safetensors"}}`, "is outside"},
		{"absolute", `{"weight_map":{"a":"/etc/passwd"}}`, "is outside"},
		{"backslashes", `{"weight_map":{"a":"..\\x"}}`, "is outside"},
		{"no name", `{"weight_map":{"a":""}}`, "is outside"},
		{"text after the end", `{"weight_map":{"a":"x"}}{}`, "follows the closing brace"},
		{"invalid UTF-8", "{\"weight_map\":{\"a\":\"x\xff\"}}", "not valid UTF-8"},
		{"deep metadata", `{"metadata":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, "nested more than 64 deep"},
		{"too many files", manyShards(maxShards + 1), "more than 1024 files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			bound.Check(t, len(c.text), func() { _, err = parseIndex("model.safetensors.index.json", c.text) })
			requireRejected(t, err, store.ErrFormat, c.reason)
		})
	}
}

func manyShards(n int) string {
	var pairs []string
	for i := range n {
		pairs = append(pairs, fmt.Sprintf(`"t%d":"f%d"`, i, i))
	}
	return `{"weight_map":{` + strings.Join(pairs, ",") + `}}`
}

func TestIndexMustMatchFiles(t *testing.T) {
	for _, c := range []struct{ name, from, to, reason string }{
		{"tensor that no file holds", `"scalar"`, `"other"`, `tensor "other" is not in ` + shardB},
		{"tensor in the other file", `"embed":"` + shardA, `"embed":"` + shardB, `tensor "embed" is in ` + shardA + ", not in " + shardB},
		{"missing file", shardB, "gone.safetensors", "names a file that is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := indexed(t)
			text, err := vfs.ReadFile(fsys, "dir/"+indexName, 1<<20)
			require.NoError(t, err)
			edited := strings.ReplaceAll(string(text), c.from, c.to)
			require.NotEqual(t, string(text), edited)
			require.NoError(t, vfs.WriteFile(fsys, "dir/"+indexName, []byte(edited)))
			_, err = Open(fsys, "dir")
			require.ErrorContains(t, err, c.reason)
		})
	}
	t.Run("tensor in two files", func(t *testing.T) {
		fsys := indexed(t)
		require.NoError(t, Write(fsys, "dir/"+shardB, sample()))
		_, err := Open(fsys, "dir")
		requireRejected(t, err, store.ErrFormat, "the name occurs twice")
	})
}

// TestIndexCannotLeaveDirectory checks that an index cannot reach a file outside the
// directory of the model, not even through a symbolic link.
func TestIndexCannotLeaveDirectory(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	require.NoError(t, Write(vfs.OS(), filepath.Join(outside, "x.safetensors"), sample()))
	if err := os.Symlink(filepath.Join(outside, "x.safetensors"), filepath.Join(dir, "link.safetensors")); err != nil {
		t.Skipf("symbolic links cannot be made here: %v", err)
	}
	index := []byte(`{"weight_map":{"embed":"link.safetensors"}}`)
	require.NoError(t, vfs.WriteFile(vfs.OS(), filepath.Join(dir, indexName), index))
	for _, path := range []string{dir, filepath.Join(dir, indexName)} {
		_, err := Open(vfs.OS(), path)
		var ioErr *vfs.IOError
		require.ErrorAs(t, err, &ioErr)
		require.Equal(t, filepath.Join(dir, "link.safetensors"), ioErr.Path)
	}
	require.NoError(t, os.Rename(filepath.Join(dir, "link.safetensors"), filepath.Join(dir, singleName)))
	_, err := Open(vfs.OS(), dir)
	require.Error(t, err)
	require.NotErrorIs(t, err, fs.ErrNotExist, "the file exists; the error must name the escape")
	_, err = Open(vfs.OS(), filepath.Join(dir, singleName))
	require.NoError(t, err, "a path that the user passes may be a link")
}

// FuzzOpenSafetensors checks that Open accepts or rejects any input within the memory
// bound, and that every tensor of an accepted file can be read.
func FuzzOpenSafetensors(f *testing.F) {
	fsys := vfs.NewMem()
	require.NoError(f, Write(fsys, "m.safetensors", sample()))
	whole, err := vfs.ReadFile(fsys, "m.safetensors", 1<<20)
	require.NoError(f, err)
	f.Add(whole)
	f.Add(file(`{}`, 0))
	f.Add(file(one("F32", "[1]", "[0,4]"), 4))
	f.Add(file(`{"\u00e4":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"__metadata__":{"a":"b"}}  `, 8))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := openBytes(t, data)
		if err != nil {
			return
		}
		for _, tensor := range d.Tensors() {
			_, err := d.ReadAt(tensor, make([]byte, tensor.Size), 0)
			require.NoError(t, err)
		}
		require.NoError(t, d.Close())
	})
}

// FuzzOpenIndex does the same for an index beside a valid file.
func FuzzOpenIndex(f *testing.F) {
	fsys := vfs.NewMem()
	require.NoError(f, Write(fsys, "m.safetensors", sample()))
	shard, err := vfs.ReadFile(fsys, "m.safetensors", 1<<20)
	require.NoError(f, err)
	f.Add([]byte(`{"metadata":{"total_size":46},"weight_map":{"embed":"m.safetensors","scalar":"m.safetensors"}}`))
	f.Add([]byte(`{"weight_map":{"a":"../x"}}`))
	f.Add([]byte(`{"a":[[{"b":[true,null,-1.5e3]}]],"weight_map":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := vfs.FromIOFS(fstest.MapFS{indexName: {Data: data}, "m.safetensors": {Data: shard}})
		bound.Check(t, len(data)+len(shard), func() {
			if d, err := Open(dir, "."); err == nil {
				require.NoError(t, d.Close())
			}
		})
	})
}
