package llmrun_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// rewritten writes a copy of a GGUF file whose matrices, but those that quantizers leave as they are, have another type.
func rewritten(t *testing.T, path string, to quant.Type) string {
	t.Helper()
	src := testutil.Must(gguf.Open(vfs.OS(), path))
	defer src.Close()
	var tensors []gguf.TensorData
	for _, tensor := range src.Tensors() {
		raw := make([]byte, tensor.Size)
		_, err := src.ReadAt(tensor, raw, 0)
		require.NoError(t, err)
		d := gguf.TensorData{Name: tensor.Name, Type: tensor.Type, Shape: tensor.Shape, Data: raw}
		if tensor.Rows() > 1 && tensor.Name != "position_embd.weight" && tensor.Name != "token_types.weight" && tensor.Cols()%to.BlockElems() == 0 {
			d.Type, d.Data = to, convert(t, tensor, raw, to)
		}
		tensors = append(tensors, d)
	}
	out := filepath.Join(t.TempDir(), "m.gguf")
	file := testutil.Must(os.Create(out))
	require.NoError(t, gguf.WriteCopy(file, src.Meta(), tensors))
	require.NoError(t, file.Close())
	return out
}

// convert returns the rows of a tensor in another type.
func convert(t *testing.T, tensor store.Tensor, raw []byte, to quant.Type) (data []byte) {
	t.Helper()
	from := len(raw) / tensor.Rows()
	row := make([]float32, tensor.Cols())
	for r := range tensor.Rows() {
		quant.DequantRow(tensor.Type, row, raw[r*from:(r+1)*from])
		if to == quant.F32 {
			data = append(data, floats("", row).Data...)
			continue
		}
		packed := make([]byte, testutil.Must(to.RowBytes(len(row))))
		require.NoError(t, quant.QuantizeRow(to, packed, row, nil))
		data = append(data, packed...)
	}
	return data
}

// TestEncodersFromQuantizedFiles compares the vectors and scores of files with weights of 8 bits with the references, alone and all
// together. The fixture of ModernBERT is coarser in 8 bits, whoever multiplies: the weights alone, in float32, leave 0.9978, most of it from
// the first layer, which [llmrun.Options].Quantize leaves in 16 bits.
func TestEncodersFromQuantizedFiles(t *testing.T) {
	ctx := context.Background()
	for _, name := range append([]string{"xlm_roberta_rerank"}, embeddingModels...) {
		t.Run(name, func(t *testing.T) {
			file, found := testutil.Find(t, "fixtures2026", name, "model.gguf")
			if !found {
				t.Skip("the file is not here")
			}
			ref := readEmbedReference(t, name)
			e := open(t, rewritten(t, file, quant.Q8_0), llmrun.Options{Threads: 2})
			var all [][]int32
			for _, s := range ref.Sequences {
				all = append(all, s.IDs)
			}
			if name == "xlm_roberta_rerank" {
				got, err := e.RankIDs(ctx, all)
				require.NoError(t, err)
				for i, s := range ref.Sequences {
					require.InDelta(t, s.Logits[0], got[i], 0.1, s.Name)
				}
				return
			}
			got, err := e.EmbedIDs(ctx, all, llmrun.EmbedOptions{})
			require.NoError(t, err)
			for i, s := range ref.Sequences {
				want := s.Sentence
				if want == nil {
					want = s.Dense
				}
				least := 0.999
				if name == "modernbert" {
					least = 0.995
				}
				require.GreaterOrEqual(t, cosine(want, got[i]), least, s.Name)
				alone, err := e.EmbedIDs(ctx, all[i:i+1], llmrun.EmbedOptions{})
				require.NoError(t, err)
				require.Equal(t, got[i], alone[0], s.Name)
			}
		})
	}
}

// TestEncodersOfFourBits compares the vectors of a file with weights of 4 bits with those of its weights in float32.
func TestEncodersOfFourBits(t *testing.T) {
	ctx := context.Background()
	for _, architecture := range []string{"bert", "nomic-bert"} {
		shape := synth.Shape{
			Name: "four", Arch: architecture, Layers: 2, Dim: 256, Heads: 4, KVHeads: 4, HeadDim: 64, FFN: 512, Vocab: 400, Context: 128, Tied: true,
			NormEps: 1e-12, Encoder: synth.Encoder{Pooling: 1, Types: 1, Positions: architecture == "bert"},
		}
		file := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, synth.Write(t.Context(), vfs.OS(), file, synth.Options{Shape: shape, Quant: "q4_k_m"}))
		e, reference := open(t, file, llmrun.Options{Threads: 2}), open(t, rewritten(t, file, quant.F32), llmrun.Options{Threads: 2, Exact: true})
		for _, n := range []int{1, 5, 64, 100} {
			ids := make([]int32, n)
			for i := range ids {
				ids[i] = int32((i*37 + n) % shape.Vocab)
			}
			got, err := e.EmbedIDs(ctx, [][]int32{ids}, llmrun.EmbedOptions{})
			require.NoError(t, err)
			want, err := reference.EmbedIDs(ctx, [][]int32{ids}, llmrun.EmbedOptions{})
			require.NoError(t, err)
			exact := make([]float64, len(want[0]))
			for i, x := range want[0] {
				exact[i] = float64(x)
			}
			require.GreaterOrEqual(t, cosine(exact, got[0]), 0.999, "%s: %d tokens", architecture, n)
		}
	}
}
