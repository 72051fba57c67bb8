package exec

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// storedOtherwise are the newer families that store keys and values in a way of their own, or have
// rows on flash that others do not have.
var storedOtherwise = []string{"gemma3n", "gemma4", "gemma4_moe", "deepseek_v2", "glm4_moe_lite"}

// TestStoredOtherwise does what TestMetamorphic does with the families of storedOtherwise, in each KV
// format in turn.
func TestStoredOtherwise(t *testing.T) {
	skipOnSlowKernels(t)
	formats := kv.Formats()
	for i, name := range storedOtherwise {
		t.Run(name, func(t *testing.T) {
			_, f := packOnDisk(t, testutil.Shared(t, "fixtures2026", name))
			ids := longPrompt(packSpec(t, f).Vocab, 400, 9)
			for seed := range uint64(testutil.Effort(2, 20)) {
				format := formats[(uint64(i)+seed)%uint64(len(formats))]
				want := allLogits(t, loadPart(t, f, Options{Threads: 2, Chunk: 128, KV: format}), ids)
				m := &metamorph{t: t, rng: rand.New(rand.NewPCG(seed, 8)), f: f, ids: ids, want: want, format: format, disk: vfs.NewMem(), notes: &testutil.Notes{}}
				t.Cleanup(func() {
					if t.Failed() {
						t.Log(m.notes)
					}
				})
				for range 3 {
					m.life()
				}
			}
		})
	}
}

// TestStoredOtherwiseSelects reads a text of which tokens attend to selected blocks: with pages on
// flash the logits are those with all pages in memory, and selecting everything those of exact
// attention.
func TestStoredOtherwiseSelects(t *testing.T) {
	skipOnSlowKernels(t)
	for i, name := range storedOtherwise {
		format := []kv.Format{kv.K8V8, kv.F32, kv.K4V8}[i%3]
		t.Run(fmt.Sprint(name, "/", format), func(t *testing.T) {
			dir := testutil.Shared(t, "fixtures2026", name)
			var ids []int32
			read := func(o Options) [][]float32 {
				o.KV, o.Threads = format, 2
				m := loadModel(t, vfs.OS(), dir, o)
				ids = longPrompt(m.Spec.Vocab, alwaysAttended+2*leastSelected*kv.BlockTokens, 3)
				s, err := m.NewSequence(0)
				require.NoError(t, err)
				defer s.Close()
				require.NoError(t, m.Extend(context.Background(), s, ids[:len(ids)-5], &ExtendOptions{}))
				return extendAll(t, m, s, ids[len(ids)-5:])
			}
			exact := read(Options{})
			require.Equal(t, exact, read(Options{Select: Selection{Fraction: 1}}))
			some := Selection{Fraction: 0.05}
			want := read(Options{Select: some})
			require.False(t, slices.EqualFunc(exact, want, slices.Equal[[]float32]), "tokens attend to selected blocks only")
			cold := coldOptions(t, rand.New(rand.NewPCG(1, 2)), vfs.OS(), format, 4<<10)
			cold.Select = some
			require.Equal(t, want, read(cold))
		})
	}
}

// TestMiniCPM3MatchesTheReference: the texts of its fixture are longer than the context that its files
// state, where other rotations begin, for texts up to some times as long.
func TestMiniCPM3MatchesTheReference(t *testing.T) {
	dir := testutil.Shared(t, "fixtures2026", "minicpm3")
	var ref reference
	testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
	models := []string{dir}
	if file, found := testutil.Find(t, "fixtures2026", "minicpm3", "model.gguf"); found {
		models = append(models, file)
	}
	for _, path := range models {
		for _, chunk := range []int{16, 256} {
			ref.check(t, loadModel(t, vfs.OS(), path, Options{Threads: 2, Chunk: chunk, Exact: true}))
		}
	}
}

// TestLatentKVIsStoredOnce: a token stores one vector for all heads, and no values.
func TestLatentKVIsStoredOnce(t *testing.T) {
	m := loadModel(t, vfs.OS(), testutil.Shared(t, "fixtures2026", "deepseek_v2"), Options{Threads: 1})
	l := m.Spec.Latent
	require.Equal(t, int64(len(m.Spec.Layers)*4*(l.Rank+l.Rope)), m.KVBytesPerToken())
}

// TestSharedKVIsStoredOnce: layers that attend to the keys and values of another layer store none.
func TestSharedKVIsStoredOnce(t *testing.T) {
	m := loadModel(t, vfs.OS(), testutil.Shared(t, "fixtures2026", "gemma4"), Options{Threads: 1})
	const windowed, full = 32, 64 // head sizes
	require.Equal(t, int64(2*4*(2*windowed+full)), m.KVBytesPerToken())
}

// TestTokensBehindTheTable: tokens behind the last row of the table of the layers' own embeddings have a row
// of zeros, which GGUF files store.
func TestTokensBehindTheTable(t *testing.T) {
	m := loadModel(t, vfs.OS(), testutil.Shared(t, "fixtures2026", "gemma3n"), Options{Threads: 1})
	table, last := &m.weights.Table, int32(m.Spec.Vocab-1)
	require.Less(t, table.Rows, m.Spec.Vocab)
	n := table.RowBytes()
	rows, zeros := bytes.Repeat([]byte{1}, 3*n), make([]byte, n)
	ids := []int32{last, 3, int32(table.Rows)}
	require.NoError(t, m.embedding.Table.LookupStored(context.Background(), rows, ids, make([]byte, table.LookupBytes())))
	require.Equal(t, zeros, rows[:n])
	require.NotEqual(t, zeros, rows[n:2*n])
	require.Equal(t, zeros, rows[2*n:])
	if file, found := testutil.Find(t, "fixtures2026", "gemma3n", "model.gguf"); found {
		other := loadModel(t, vfs.OS(), file, Options{Threads: 1})
		require.Equal(t, allLogits(t, other, ids), allLogits(t, m, ids))
	}
}

// TestSparseMLPsAndStreamsMatter: without them the fixture's logits are others, so that its reference proves them.
func TestSparseMLPsAndStreamsMatter(t *testing.T) {
	m := loadModel(t, vfs.OS(), testutil.Shared(t, "fixtures2026", "gemma3n"), Options{Threads: 1})
	ids := longPrompt(m.Spec.Vocab, 20, 3)
	whole := allLogits(t, m, ids)
	m.Spec.Layers[1].Sparse = false
	require.NotEqual(t, whole, allLogits(t, m, ids))
	m.Spec.Layers[1].Sparse = true
	clear(m.weights.Layers[2].AltUp.Correct)
	require.NotEqual(t, whole, allLogits(t, m, ids))
}

// TestTrafficCountsAllWeights: a token reads all weights but the other rows of embeddings and the experts that it does not
// choose. The test walks the weights by reflection, so that it finds new ones.
func TestTrafficCountsAllWeights(t *testing.T) {
	eachFamily2026(t, func(t *testing.T, dir string, _ []string) {
		m := loadModel(t, vfs.OS(), dir, Options{Threads: 1, Exact: true})
		w := m.weights
		want := bytesOfWeights(reflect.ValueOf(w.Layers))
		for l := range w.Layers {
			if experts := w.Layers[l].Experts; len(experts) > 0 {
				want -= bytesOfWeights(reflect.ValueOf(experts[m.Spec.ExpertsUsed:]))
			}
		}
		for _, part := range []any{w.Norm, w.TableNorm, w.Head} {
			want += bytesOfWeights(reflect.ValueOf(part))
		}
		if w.Table.Present() {
			want += int64(w.Table.RowBytes())
		}
		if !w.Tied {
			want += int64(w.Embed.RowBytes())
		}
		require.Equal(t, want, m.Traffic().WeightBytes)
	})
}

// bytesOfWeights adds up the matrices and vectors in a value.
func bytesOfWeights(v reflect.Value) (n int64) {
	switch v.Kind() {
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Float32 {
			return 4 * int64(v.Len())
		}
		for i := range v.Len() {
			n += bytesOfWeights(v.Index(i))
		}
	case reflect.Struct:
		if m, ok := v.Interface().(weights.Matrix); ok && m.Rows == 0 {
			return 0
		} else if ok {
			return int64(m.Rows * m.RowBytes())
		}
		for i := range v.NumField() {
			n += bytesOfWeights(v.Field(i))
		}
	}
	return n
}
