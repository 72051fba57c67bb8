package llmrun_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// embedReference is a reference of an encoder.
type embedReference struct {
	Pooling   string
	Sequences []struct {
		Name      string
		IDs       []int32
		Embedding map[string][]float64
		Sentence  []float64 `json:"sentence_embedding"`
		Dense     []float64 `json:"dense_embedding"`
		Logits    []float64
	}
}

func readEmbedReference(t *testing.T, name string) (ref embedReference) {
	testutil.ReadJSON(t, filepath.Join(testutil.Shared(t, "fixtures2026", name), "reference.json"), &ref)
	return ref
}

// cosine returns the cosine of the angle between two vectors.
func cosine(a []float64, b []float32) float64 {
	ab, aa, bb := 0.0, 0.0, 0.0
	for i, x := range a {
		y := float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

var embeddingModels = []string{"bert_cls", "bert_mean", "nomic_bert", "modernbert", "embeddinggemma", "xlm_roberta", "qwen3_embedding"}

// modelsOf returns the checkpoint of a fixture and, where it is there, its GGUF file.
func modelsOf(t *testing.T, name string) []string {
	models := []string{testutil.Shared(t, "fixtures2026", name)}
	if file, found := testutil.Find(t, "fixtures2026", name, "model.gguf"); found {
		models = append(models, file)
	}
	return models
}

// TestEmbeddingsMatchTheReference compares vectors of each length with the reference, each alone and all together, in float32
// and with weights of 8 bits.
func TestEmbeddingsMatchTheReference(t *testing.T) {
	for _, name := range embeddingModels {
		t.Run(name, func(t *testing.T) { requireReference(t, name) })
	}
}

// requireReference compares the vectors of one fixture.
func requireReference(t *testing.T, name string) {
	ctx, ref := context.Background(), readEmbedReference(t, name)
	for _, path := range modelsOf(t, name) {
		for _, quantize := range []string{"", "q8"} {
			least, poolings := 0.9999, []string{"", "mean", "cls", "last"}
			if quantize != "" {
				least, poolings = 0.999, poolings[:1]
			}
			e := open(t, path, llmrun.Options{Threads: 2, Exact: quantize == "", Quantize: quantize})
			var all [][]int32
			for _, s := range ref.Sequences {
				all = append(all, s.IDs)
			}
			for _, pooling := range poolings {
				stats := llmrun.EmbedStats{}
				o := llmrun.EmbedOptions{Pooling: pooling, Stats: &stats}
				together, err := e.EmbedIDs(ctx, all, o)
				require.NoError(t, err)
				require.Equal(t, 189, stats.Tokens)
				for i, s := range ref.Sequences {
					want := s.Embedding[pooling]
					if pooling == "" {
						if want = s.Sentence; want == nil {
							want = s.Dense
						}
					}
					require.GreaterOrEqual(t, cosine(want, together[i]), least, "%s %s %q %s", path, quantize, pooling, s.Name)
					require.InDelta(t, 1, norm(together[i]), 1e-5)
					alone, err := e.EmbedIDs(ctx, all[i:i+1], o)
					require.NoError(t, err)
					require.Equal(t, together[i], alone[0], "%s %q %s", path, pooling, s.Name)
				}
			}
		}
	}
}

// norm returns the length of a vector.
func norm(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// TestRanksMatchTheReference compares the outputs of heads with the reference.
func TestRanksMatchTheReference(t *testing.T) {
	for _, name := range []string{"xlm_roberta_rerank", "qwen3_reward"} {
		t.Run(name, func(t *testing.T) {
			ref := readEmbedReference(t, name)
			var all [][]int32
			for _, s := range ref.Sequences {
				all = append(all, s.IDs)
			}
			for _, path := range modelsOf(t, name) {
				e := open(t, path, llmrun.Options{Threads: 2, Exact: true})
				scores, err := e.RankIDs(context.Background(), all)
				require.NoError(t, err)
				for i, s := range ref.Sequences {
					require.InDelta(t, s.Logits[0], scores[i], 1e-3, "%s %s", path, s.Name)
				}
			}
		})
	}
}

// TestKeysOfDescribingModels: a model that is made to score texts has keys and values of 16 bits beside weights of 8, without an
// option, and one that generates texts has them if the option says so.
func TestKeysOfDescribingModels(t *testing.T) {
	text := testutil.Shared(t, "gguf", "tiny-llama-q8_0.gguf")
	for _, c := range []struct {
		path      string
		describes bool
		want      string
	}{{testutil.Shared(t, "fixtures2026", "qwen3_reward"), false, "f16"}, {text, false, "k8v8"}, {text, true, "f16"}} {
		e := open(t, c.path, llmrun.Options{Threads: 1, Quantize: "q8", Describes: c.describes})
		require.Equal(t, c.want, e.Info().KV, c.path)
	}
}

// TestEncodersFromPacks: a pack of a model has what its files say behind the network, and a budget streams its weights. The
// vectors and scores have the same bits.
func TestEncodersFromPacks(t *testing.T) {
	for _, name := range append([]string{"xlm_roberta_rerank", "qwen3_reward"}, embeddingModels...) {
		t.Run(name, func(t *testing.T) {
			path := testutil.Shared(t, "fixtures2026", name)
			ref := readEmbedReference(t, name)
			pack := filepath.Join(t.TempDir(), "m.pack")
			_, err := llmrun.Import(context.Background(), path, pack, llmrun.ImportOptions{})
			require.NoError(t, err)
			var all [][]int32
			for _, s := range ref.Sequences {
				all = append(all, s.IDs)
			}
			describe := func(path string, o llmrun.Options) [][]float32 {
				e := open(t, path, o)
				if ref.Sequences[0].Logits != nil {
					scores, err := e.RankIDs(context.Background(), all)
					require.NoError(t, err)
					return [][]float32{scores}
				}
				vectors, err := e.EmbedIDs(context.Background(), all, llmrun.EmbedOptions{})
				require.NoError(t, err)
				return vectors
			}
			want := describe(path, llmrun.Options{Threads: 2})
			require.Equal(t, want, describe(pack, llmrun.Options{Threads: 2}))
		})
	}
}

// TestIdentitiesOfVectors: vectors have another identity if the model's files, or options that change vectors, are others. A pack in the
// cache has that of its model under any name.
func TestIdentitiesOfVectors(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	at := func(name string, seed uint64) string {
		path := filepath.Join(dir, name)
		require.NoError(t, hubmodel.Encoder{Seed: seed}.Write(path))
		return path
	}
	one, copied, other := at("one", 1), at("copied", 1), at("other", 2)
	identity := func(path string, o llmrun.Options, e llmrun.EmbedOptions) string {
		o.Threads = 1
		id, err := open(t, path, o).EmbedIdentity(context.Background(), e)
		require.NoError(t, err)
		require.Len(t, id, 64)
		return id
	}
	plain, prefix, none := identity(one, llmrun.Options{}, llmrun.EmbedOptions{}), "passage: ", ""
	cached := llmrun.Options{Cache: llmrun.CacheOptions{Dir: cache}}
	require.Equal(t, plain, identity(copied, llmrun.Options{}, llmrun.EmbedOptions{Prefix: &none}))
	require.Equal(t, plain, identity(one, cached, llmrun.EmbedOptions{}))
	pack := filepath.Join(dir, "one.pack")
	_, err := llmrun.Import(context.Background(), one, pack, llmrun.ImportOptions{Quantize: "q8"})
	require.NoError(t, err)
	seen := map[string]bool{plain: true}
	for name, id := range map[string]string{
		"model": identity(other, llmrun.Options{}, llmrun.EmbedOptions{}), "pack": identity(pack, llmrun.Options{}, llmrun.EmbedOptions{}),
		"quantized": identity(one, llmrun.Options{Quantize: "q8"}, llmrun.EmbedOptions{}), "prefix": identity(one, llmrun.Options{}, llmrun.EmbedOptions{Prefix: &prefix}),
		"dimensions": identity(one, llmrun.Options{}, llmrun.EmbedOptions{Dimensions: 32}), "pooling": identity(one, llmrun.Options{}, llmrun.EmbedOptions{Pooling: "cls"}),
		"raw": identity(one, llmrun.Options{}, llmrun.EmbedOptions{Raw: true}),
	} {
		require.False(t, seen[id], name)
		seen[id] = true
	}
	e := open(t, one, llmrun.Options{})
	require.NoError(t, os.WriteFile(filepath.Join(one, "tokenizer.json"), []byte("{}"), 0o600))
	_, err = e.EmbedIdentity(context.Background(), llmrun.EmbedOptions{})
	require.ErrorContains(t, err, one)
	require.ErrorContains(t, err, "changed")
	_, err = e.EmbedIdentity(context.Background(), llmrun.EmbedOptions{Dimensions: 1000})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// TestEncodersGenerateNothing checks the error of a session, and that of options.
func TestEncodersGenerateNothing(t *testing.T) {
	e := open(t, testutil.Shared(t, "fixtures2026", "bert_mean"), llmrun.Options{Threads: 1})
	_, err := e.NewSession()
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.ErrorContains(t, err, "is an encoder")
	_, err = e.Embed(context.Background(), []string{"a"}, llmrun.EmbedOptions{})
	require.ErrorIs(t, err, llmrun.ErrNoTokenizer)
	_, err = e.RankIDs(context.Background(), [][]int32{{1}})
	require.ErrorContains(t, err, "no head that scores")
	for _, o := range []llmrun.EmbedOptions{{Pooling: "max"}, {Dimensions: 33}, {Dimensions: -1}, {Kind: "x"}} {
		_, err = e.EmbedIDs(context.Background(), [][]int32{{1}}, o)
		require.ErrorIs(t, err, llmrun.ErrOptions)
	}
	_, err = e.EmbedIDs(context.Background(), [][]int32{make([]int32, 161)}, llmrun.EmbedOptions{})
	require.ErrorIs(t, err, llmrun.ErrContextFull)
	_, err = e.EmbedIDs(context.Background(), [][]int32{{512}}, llmrun.EmbedOptions{})
	require.ErrorIs(t, err, llmrun.ErrToken)
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = e.EmbedIDs(cancelled, [][]int32{{1}}, llmrun.EmbedOptions{})
	require.ErrorIs(t, err, context.Canceled)
	short, err := e.EmbedIDs(context.Background(), [][]int32{{1, 2, 3}}, llmrun.EmbedOptions{Dimensions: 8})
	require.NoError(t, err)
	require.Len(t, short[0], 8)
	require.InDelta(t, 1, norm(short[0]), 1e-5)
	each, err := e.EmbedIDs(context.Background(), [][]int32{{1, 2, 3}}, llmrun.EmbedOptions{Pooling: "none"})
	require.NoError(t, err)
	require.Len(t, each, 3)
}

// TestEncodersStream: with a budget for a part of the weights, layers are read for each pass and rows of the embedding for
// each text. The vectors have the same bits at every budget.
func TestEncodersStream(t *testing.T) {
	shape := synth.Shape{
		Name: "streamed", Arch: "bert", Layers: 8, Dim: 256, Heads: 8, KVHeads: 8, HeadDim: 32, FFN: 1024, Vocab: 40000, Context: 64, Tied: true,
		NormEps: 1e-12, Encoder: synth.Encoder{Pooling: 1, Types: 1, Positions: true},
	}
	model, pack := filepath.Join(t.TempDir(), "m.gguf"), filepath.Join(t.TempDir(), "m.pack")
	require.NoError(t, synth.Write(t.Context(), vfs.OS(), model, synth.Options{Shape: shape, Quant: "q8_0"}))
	_, err := llmrun.Import(t.Context(), model, pack, llmrun.ImportOptions{})
	require.NoError(t, err)
	var texts [][]int32
	for n := range 7 {
		ids := make([]int32, 9*n+1)
		for i := range ids {
			ids[i] = int32((i*7919 + n*104729) % shape.Vocab)
		}
		texts = append(texts, ids)
	}
	o := llmrun.Options{Threads: 2, Describes: true}
	least := minimum(t, pack, o)
	var want [][]float32
	for _, extra := range []int64{64 << 20, 0, 3 << 20, 8 << 20} {
		o.Memory.RAM = least + extra
		e := open(t, pack, o)
		got, err := e.EmbedIDs(t.Context(), texts, llmrun.EmbedOptions{})
		require.NoError(t, err)
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, "%d bytes above the minimum", extra)
		report := e.Memory()
		require.LessOrEqual(t, held(e), o.Memory.RAM)
		plan := report.Plan
		layers := int64(0)
		for _, n := range plan.Pinned {
			layers += n
		}
		switch extra {
		case 0:
			require.Positive(t, plan.StreamedPerChunk, "the least memory does not hold the layers")
		case 3 << 20:
			require.Positive(t, layers)
			require.Less(t, plan.HeadPinned, int64(1<<20), "layers come before the embedding, whose rows are looked up")
		case 64 << 20:
			require.Zero(t, plan.StreamedPerChunk)
		}
	}
}
