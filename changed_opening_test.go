package llmrun_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

// TestModelChangesWhileItOpens changes a GGUF file before each operation on it in turn, from the first probe of its format to the
// last pass. The answer is that of the old or of the new content, or there is an error: never a mix. The two contents
// differ in the header and in the weights.
func TestModelChangesWhileItOpens(t *testing.T) {
	shape := small(t)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab = 2, 64, 128, 1024
	before := writeShape(t, shape, "q8_0")
	shape.Rope.Base *= 7
	after := filepath.Join(t.TempDir(), "after.gguf")
	require.NoError(t, synth.Write(t.Context(), vfs.OS(), after, synth.Options{Shape: shape, Quant: "q8_0", Seed: 5}))
	was, is := readFile(t, before), readFile(t, after)
	require.Len(t, is, len(was), "the tensors of the mix are where they were")

	path := filepath.Join(t.TempDir(), "m.gguf")
	prompt := document(40)
	answer := func() ([]int32, error) {
		e, err := llmrun.Open(path, llmrun.Options{Threads: 1, Context: 128, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}})
		if err != nil {
			return nil, err
		}
		defer e.Close()
		a := collect(newSession(t, e).GenerateIDs(context.Background(), prompt, drawn(6)))
		return a.IDs, a.err
	}
	sound := func(content []byte) []int32 {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		ids, err := answer()
		require.NoError(t, err)
		return ids
	}
	contents := [][]int32{sound(was), sound(is)}
	require.NotEqual(t, contents[0], contents[1])

	overwrite := func(from, to int) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(is[from:to], int64(from))
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	for name, change := range map[string]func(){
		"overwritten": func() { overwrite(0, len(is)) },
		"replaced": func() {
			require.NoError(t, os.WriteFile(path+".new", is, 0o600))
			require.NoError(t, os.Rename(path+".new", path))
		},
		"overwritten with the old time": func() {
			info, err := os.Stat(path)
			require.NoError(t, err)
			overwrite(0, len(is))
			require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			answers := 0
			for k := 0; ; k++ {
				require.NoError(t, os.WriteFile(path, was, 0o600))
				at, changed := 0, false
				vfs.SetFaults(func(op vfs.Op) error {
					if op.Path == path && !changed {
						if changed = at == k; changed {
							change()
						}
						at++
					}
					return nil
				})
				ids, err := answer()
				vfs.SetFaults(nil)
				if !changed {
					require.Greater(t, answers, 2)
					return
				}
				if err == nil {
					answers++
					require.True(t, slices.ContainsFunc(contents, func(c []int32) bool { return slices.Equal(c, ids) }), "operation %d: %v is neither of %v", k, ids, contents)
				} else {
					require.ErrorIs(t, err, llmrun.ErrFormat, "operation %d", k)
					require.ErrorContains(t, err, path)
				}
			}
		})
	}
}

// TestModelIsStillWritten pauses the writing of a model file while the model is opened, and continues behind the first pass.
func TestModelIsStillWritten(t *testing.T) {
	path := writeShape(t, small(t), "q8_0")
	e := open(t, path, llmrun.Options{Threads: 1, Context: 128, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit}})
	s := newSession(t, e)
	var got answer
	for p, err := range s.GenerateIDs(context.Background(), document(8), drawn(20)) {
		if got.err = err; len(got.IDs) == 1 {
			require.NoError(t, os.WriteFile(path, readFile(t, path), 0o600))
		}
		got.IDs = append(got.IDs, p.ID)
	}
	require.ErrorIs(t, got.err, llmrun.ErrFormat)
	require.ErrorContains(t, got.err, path)
	require.Less(t, len(got.IDs), 20)
}
