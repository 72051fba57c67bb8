package exec

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// FuzzOpenModel mutates a small GGUF file, or the config.json beside small weights. Each result
// either opens, loads and runs within a small budget, or is refused; all memory is freed.
func FuzzOpenModel(f *testing.F) {
	f.Add(true, encodedGGUF(f, modeltest.TinyGGUF()))
	for _, arch := range []string{"gemma3", "phi3", "qwen2", "gptneox", "lfm2", "olmo2"} {
		f.Add(true, encodedGGUF(f, modeltest.TinyGGUF().As(arch)))
	}
	f.Add(false, modeltest.TinyConfig(f, nil))
	f.Add(false, modeltest.TinyConfig(f, modeltest.Fields{"rope_scaling": modeltest.Fields{"type": "yarn", "factor": 2}, "sliding_window": 4, "layer_types": []string{arch.FullAttention, arch.SlidingAttention}}))
	f.Add(false, modeltest.TinyConfig(f, modeltest.Fields{"model_type": "gemma3_text", "rope_parameters": modeltest.Fields{arch.FullAttention: modeltest.Fields{"rope_theta": 100}}}))
	f.Add(false, modeltest.TinyConfig(f, modeltest.Fields{"model_type": "lfm2", "full_attn_idxs": []int{0}}))
	f.Fuzz(func(t *testing.T, isGGUF bool, data []byte) {
		if isGGUF {
			fsys := vfs.NewMem()
			modeltest.WriteFile(t, fsys, "m.gguf", data)
			openAndRun(t, fsys, "m.gguf")
		} else {
			openAndRun(t, modeltest.WriteTinyHF(t, data), "m")
		}
	})
}

// encodedGGUF returns the bytes of a file.
func encodedGGUF(t testing.TB, g *modeltest.GGUF) []byte {
	t.Helper()
	f, err := g.Write(t).Open("m.gguf")
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); !errors.Is(err, io.EOF) {
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return data
}

// openAndRun computes two tokens, if the file is a valid model.
func openAndRun(t *testing.T, fsys vfs.FS, path string) {
	files, err := modelfile.Open(fsys, path)
	if err != nil {
		return
	}
	defer func() { require.NoError(t, files.Close()) }()
	budget := tiering.New(4 << 20)
	defer func() { require.NoError(t, budget.Check()) }()
	m, err := Load(context.Background(), files, Options{Threads: 1, Chunk: 2, Budget: budget})
	if err != nil {
		return
	}
	defer m.Close()
	s, err := m.NewSequence(2)
	if err != nil {
		return
	}
	defer s.Close()
	_ = m.Extend(context.Background(), s, []int32{0, 1}, &ExtendOptions{Each: func(int, []float32) error { return nil }})
}
