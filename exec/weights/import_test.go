package weights_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

// TestImportKeepsWeights covers every family, from checkpoints and from GGUF
// files: fused and stacked tensors, tied heads, biases, experts.
func TestImportKeepsWeights(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			modeltest.RequireSameWeights(t, vfs.OS(), dir, false)
			modeltest.RequireSameWeights(t, modeltest.ExportFixture(t, dir).Write(t), "m.gguf", false)
		})
	}
}

// TestImportLosesNothing imports matrices of every GGUF type with random bytes. The loaded
// weights, tiled or in rows, and every byte that the pack returns as a source are the same.
func TestImportLosesNothing(t *testing.T) {
	for typ := quant.F32; typ.Valid(); typ++ {
		if !typ.InGGUF() {
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			fsys := modeltest.RandomTensors(t, typ).Write(t)
			modeltest.RequireSameWeights(t, fsys, "m.gguf", false)
			modeltest.RequireSameWeights(t, fsys, "m.gguf", true)
			source, err := modelfile.Open(fsys, "m.gguf")
			require.NoError(t, err)
			defer source.Close()
			packed, err := modelfile.Open(modeltest.ImportModel(t, fsys, "m.gguf"), "m.pack")
			require.NoError(t, err)
			defer packed.Close()
			require.Equal(t, "pack", packed.Format())
			for _, want := range source.Source.Tensors() {
				got, ok := packed.Source.Tensor(want.Name)
				require.True(t, ok, want.Name)
				require.Equal(t, want.Shape, got.Shape)
				require.Equal(t, want.Size, got.Size)
				require.Equal(t, readPieces(t, source, want.Name), readPieces(t, packed, want.Name), want.Name)
			}
		})
	}
}

// readPieces reads a tensor in ranges of an odd size.
func readPieces(t *testing.T, f *modelfile.Files, name string) (all []byte) {
	tensor, ok := f.Source.Tensor(name)
	require.True(t, ok)
	for off := int64(0); off < tensor.Size; off += 1001 {
		piece := make([]byte, min(1001, tensor.Size-off))
		_, err := f.Source.ReadAt(tensor, piece, off)
		require.NoError(t, err)
		all = append(all, piece...)
	}
	return all
}

// TestPacksKeepTheMetadata compares all data besides the weights.
func TestPacksKeepTheMetadata(t *testing.T) {
	for _, path := range []string{
		hubmodel.Dir(testutil.Root(t)),
		testutil.Shared(t, "gguf", "tiny-qwen2-q4_k_m.gguf"),
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			source, err := modelfile.Open(vfs.OS(), path)
			require.NoError(t, err)
			defer source.Close()
			packed, err := modelfile.Open(modeltest.ImportModel(t, vfs.OS(), path), "m.pack")
			require.NoError(t, err)
			defer packed.Close()
			about := packed.Packed().About()
			require.Equal(t, filepath.Base(path), about.Source)
			require.Equal(t, "test", about.CreatedBy)
			wantTemplate, err := source.ChatTemplate()
			require.NoError(t, err)
			gotTemplate, err := packed.ChatTemplate()
			require.NoError(t, err)
			require.Equal(t, wantTemplate, gotTemplate)
			wantSampling, wantSaid, err := source.Sampling()
			require.NoError(t, err)
			gotSampling, gotSaid, err := packed.Sampling()
			require.NoError(t, err)
			require.Equal(t, wantSampling, gotSampling)
			require.Equal(t, wantSaid, gotSaid)
			require.Equal(t, source.Name(), packed.Name())
			require.Equal(t, source.Quantized(), packed.Quantized())
			want, wantErr := source.Tokenizer()
			got, gotErr := packed.Tokenizer()
			require.Equal(t, wantErr == nil, gotErr == nil)
			if wantErr == nil {
				const text = "Once upon a time, 1234 <|im_end|> äöü 🦊"
				o := token.EncodeOptions{AddSpecial: true, AllowSpecial: true}
				require.Equal(t, testutil.Must(want.Encode(text, o)), testutil.Must(got.Encode(text, o)))
				require.Equal(t, want.EOS(), got.EOS())
			}
		})
	}
}

// TestSplitModelsArePacked imports a model of two files, given the second one. The pack must not
// need the other file.
func TestSplitModelsArePacked(t *testing.T) {
	g := modeltest.TinyGGUF()
	fsys := g.Write(t)
	half := len(g.Tensors) / 2
	for i, tensors := range [][]gguf.TensorData{g.Tensors[:half], g.Tensors[half:]} {
		keys := append([]gguf.KV{{Key: "split.no", Value: uint16(i)}, {Key: "split.count", Value: uint16(2)}}, g.Keys...)
		require.NoError(t, gguf.Write(fsys, fmt.Sprintf("s-0000%d-of-00002.gguf", i+1), keys, tensors))
	}
	whole, err := modelfile.Open(modeltest.ImportModel(t, fsys, "m.gguf"), "m.pack")
	require.NoError(t, err)
	defer whole.Close()
	parts, err := modelfile.Open(modeltest.ImportModel(t, fsys, "s-00002-of-00002.gguf"), "m.pack")
	require.NoError(t, err)
	defer parts.Close()
	for _, want := range whole.Source.Tensors() {
		require.Equal(t, readPieces(t, whole, want.Name), readPieces(t, parts, want.Name), want.Name)
	}
	require.Greater(t, parts.Packed().About().SourceBytes, whole.Packed().About().SourceBytes, "the sizes of both parts are added")
}

// TestPackOfAPackIsTheSame imports a pack.
func TestPackOfAPackIsTheSame(t *testing.T) {
	once := modeltest.ImportModel(t, modeltest.TinyGGUF().Write(t), "m.gguf")
	twice := modeltest.ImportModel(t, once, "m.pack")
	want, err := vfs.ReadFile(once, "m.pack", 1<<30)
	require.NoError(t, err)
	got, err := vfs.ReadFile(twice, "m.pack", 1<<30)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestCancelledImportLeavesNothing cancels an import from its progress callback.
func TestCancelledImportLeavesNothing(t *testing.T) {
	f, err := modelfile.Open(modeltest.TinyGGUF().Write(t), "m.gguf")
	require.NoError(t, err)
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	to := vfs.NewMem()
	err = weights.Import(ctx, f, to, "m.pack", weights.ImportOptions{Progress: func(int64, int64) { cancel() }})
	require.ErrorIs(t, err, context.Canceled)
	left, err := to.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestImportReportsEveryFault fails operation k on the target file system, for k = 0, 1, 2 …,
// until an import succeeds.
func TestImportReportsEveryFault(t *testing.T) {
	source := modeltest.TinyGGUF().Write(t)
	injected := errors.New("injected")
	for k := int64(0); ; k++ {
		mem := vfs.NewMem()
		failed := false
		target := vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Index == k {
				failed = true
				return injected
			}
			return nil
		})
		f, err := modelfile.Open(source, "m.gguf")
		require.NoError(t, err)
		err = weights.Import(context.Background(), f, target, "m.pack", weights.ImportOptions{})
		require.NoError(t, f.Close())
		if !failed {
			require.NoError(t, err)
			require.Greater(t, k, int64(3))
			return
		}
		require.ErrorIs(t, err, injected, "operation %d", k)
		if p, err := pack.Open(mem, "m.pack"); err == nil { // only the last operations come so late
			require.NoError(t, p.Verify(context.Background(), nil))
			require.NoError(t, p.Close())
		}
	}
}
