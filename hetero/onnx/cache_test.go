//go:build npu

package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/onnx/graph"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestGraphsAreCached checks that a cached graph gives the same bits and that a
// damaged one is rebuilt.
func TestGraphsAreCached(t *testing.T) {
	for _, precision := range []graph.Precision{graph.WeightOnly, graph.Integer} {
		dir := filepath.Join(t.TempDir(), "graphs")
		var want []float32
		tolerance := 0.0
		// attempt prepares and runs the matmul on a new device.
		attempt := func(name string) (s Stats) {
			t.Run(precision.String()+"/"+name, func(t *testing.T) {
				b := newBench(t, Options{CacheDir: dir, Precision: precision})
				op := b.op(quant.Q4_0, 4, 64, 64) // the same each time
				x, y := hetero.View{Buffer: b.pool.Take(), Stride: 64}, hetero.View{Buffer: b.pool.Take(), Stride: 64}
				b.fill(x, 4, 64)
				k := b.prepare(op)
				b.run(k, x, y)
				b.compare(op, k, x, y)
				if want == nil {
					want, tolerance = append(want, y.Row(0, 4*64)...), k.Tolerance()
				}
				require.Equal(t, want, y.Row(0, 4*64))
				require.Equal(t, tolerance, k.Tolerance())
				s = b.Stats()
			})
			if want == nil {
				t.Skip("no library")
			}
			return s
		}
		first := attempt("first")
		require.Equal(t, [4]int{1, 0, 0, 0}, [4]int{first.Built, first.Cached, first.Damaged, first.Unsaved})
		require.Positive(t, first.Weights)
		again := attempt("again")
		require.Equal(t, [3]int{1, 1, 0}, [3]int{again.Built, again.Cached, again.Damaged})
		require.Zero(t, again.Weights, "the graph contains the weights")

		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1, "no temporary file remains")
		name := filepath.Join(dir, files[0].Name())
		whole, err := os.ReadFile(name)
		require.NoError(t, err)
		flipped := append([]byte(nil), whole...)
		flipped[len(flipped)-100] ^= 4
		for damage, bytes := range map[string][]byte{
			"flipped": flipped, "cut": whole[:len(whole)-1], "header": whole[:20], "empty": {},
			"foreign": foreignEntry(t),
		} {
			require.NoError(t, os.WriteFile(name, bytes, 0o600))
			s := attempt(damage)
			require.Equal(t, [3]int{1, 0, 1}, [3]int{s.Built, s.Cached, s.Damaged}, damage)
			repaired, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, whole, repaired)
		}
	}
}

// foreignEntry writes an intact file that is not a graph of the library.
func foreignEntry(t *testing.T) []byte {
	dir := t.TempDir()
	c := &cache{fs: vfs.OS(), dir: dir}
	name, temp := filepath.Join(dir, "entry"), filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(temp, []byte("of another library"), 0o600))
	require.NoError(t, c.writeEntry(name, temp, 0))
	entry, err := os.ReadFile(name)
	require.NoError(t, err)
	return entry
}

// TestReadOnlyCache checks that a graph works even if it cannot be cached.
func TestReadOnlyCache(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, Options{CacheDir: dir})
	op := b.op(quant.Q4_0, 1, 32, 32)
	key, err := b.keyOf(&op)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(b.cache.name(key), "taken"), 0o700))
	b.prepare(op)
	require.Equal(t, 1, b.Stats().Unsaved)

	_, err = Open(Options{CacheDir: "/dev/null/graphs"})
	require.Error(t, err)
}
