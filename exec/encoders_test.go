package exec

import (
	"context"
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// encoders are the fixtures of models that describe texts. The references have the hidden states of whole texts.
var encoders = []string{"bert_cls", "bert_mean", "nomic_bert", "modernbert", "embeddinggemma", "xlm_roberta", "qwen3_embedding"}

// hiddenReference is a reference of hidden states.
type hiddenReference struct {
	Sequences []struct {
		Name   string
		IDs    []int32
		Hidden map[string][]float32 `json:"last_hidden_state"`
		L2     []float32            `json:"row_l2"`
		Sum    []float32            `json:"row_sum"`
	}
}

// eachEncoder runs a test with each encoder: its reference, and the paths of its checkpoint and its GGUF file.
func eachEncoder(t *testing.T, test func(t *testing.T, ref *hiddenReference, models []string)) {
	for _, name := range encoders {
		t.Run(name, func(t *testing.T) {
			dir := testutil.Shared(t, "fixtures2026", name)
			models := []string{dir}
			if file, found := testutil.Find(t, "fixtures2026", name, "model.gguf"); found {
				models = append(models, file)
			}
			var ref hiddenReference
			testutil.ReadJSON(t, filepath.Join(dir, "reference.json"), &ref)
			test(t, &ref, models)
		})
	}
}

// hiddenStates returns the hidden states of all tokens of some texts, which are read together.
func hiddenStates(t *testing.T, m *Model, texts ...[]int32) [][][]float32 {
	t.Helper()
	states := make([][][]float32, len(texts))
	read := make([]Text, len(texts))
	for i, ids := range texts {
		read[i] = Text{IDs: ids, Options: ExtendOptions{
			Hidden: true, Want: func(int) bool { return true },
			Each: func(_ int, x []float32) error {
				states[i] = append(states[i], append([]float32(nil), x...))
				return nil
			},
		}}
	}
	require.NoError(t, ReadTexts(context.Background(), m, read))
	return states
}

// TestEncodersMatchTheReference compares the hidden states of checkpoints and GGUF files with those of another
// implementation.
func TestEncodersMatchTheReference(t *testing.T) {
	eachEncoder(t, func(t *testing.T, ref *hiddenReference, models []string) {
		for _, path := range models {
			t.Run(filepath.Base(path), func(t *testing.T) {
				m := loadModel(t, vfs.OS(), path, Options{Threads: 2, Exact: true})
				for _, s := range ref.Sequences {
					got := hiddenStates(t, m, s.IDs)[0]
					require.Len(t, got, len(s.IDs))
					for row, x := range got {
						sum, squares := 0.0, 0.0
						for _, v := range x {
							sum, squares = sum+float64(v), squares+float64(v)*float64(v)
						}
						require.InDelta(t, s.L2[row], math.Sqrt(squares), 1e-3, "%s: row %d", s.Name, row)
						require.InDelta(t, s.Sum[row], sum, 5e-3, "%s: row %d", s.Name, row)
					}
					for row, want := range s.Hidden {
						at, err := strconv.Atoi(row)
						require.NoError(t, err)
						require.InDeltaSlice(t, want, got[at], 1e-3, "%s: row %d", s.Name, at)
					}
				}
			})
		}
	})
}

// TestEncodersAreInvariant: a text has the same bits alone and among others, with any number of threads and any chunk.
func TestEncodersAreInvariant(t *testing.T) {
	eachEncoder(t, func(t *testing.T, ref *hiddenReference, models []string) {
		var texts [][]int32
		for _, s := range ref.Sequences {
			texts = append(texts, s.IDs)
		}
		for _, format := range []kv.Format{kv.F32, kv.K8V8} {
			alone := loadModel(t, vfs.OS(), models[0], Options{Threads: 1, KV: format})
			var want [][][]float32
			for _, ids := range texts {
				want = append(want, hiddenStates(t, alone, ids)...)
			}
			before := Passes(alone).Passes
			require.Equal(t, want, hiddenStates(t, alone, texts...), "together, %s", format)
			if alone.Spec.Encoder.Bidirectional {
				require.EqualValues(t, 1, Passes(alone).Passes-before, "all texts fit in a pass")
			}
			more := loadModel(t, vfs.OS(), models[0], Options{Threads: 3, KV: format, Chunk: 171})
			require.Equal(t, want, hiddenStates(t, more, texts...), "three threads, %s", format)
		}
	})
}
