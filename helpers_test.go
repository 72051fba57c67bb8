package llmrun_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/safetensors"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// demoModel is the model that ships with the command, as a Hugging Face directory. The tests
// run in the repository's root.
var demoModel = hubmodel.Dir(".")

// foxPrompt is a conversation as the demo model's template renders it.
const foxPrompt = "<|im_start|>user\nTell me a story about a brave fox named Ruby.<|im_end|>\n<|im_start|>assistant\n"

// demoEngine is the engine of all tests that need no options of their own.
var demoEngine = sync.OnceValues(func() (*llmrun.Engine, error) {
	return llmrun.Open(demoModel, llmrun.Options{Threads: 2})
})

func demo(t testing.TB) *llmrun.Engine {
	t.Helper()
	e, err := demoEngine()
	require.NoError(t, err)
	return e
}

// open opens a model. When the test ends, it closes the engine and checks that the engine
// holds no memory.
func open(t testing.TB, path string, o llmrun.Options) *llmrun.Engine {
	t.Helper()
	e, err := llmrun.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.NoError(t, e.CheckMemory())
	})
	return e
}

func newSession(t testing.TB, e *llmrun.Engine) *llmrun.Session {
	t.Helper()
	s, err := e.NewSession()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// answer is the result of a generation.
type answer struct {
	IDs  []int32 `json:"ids"`
	Text string  `json:"text"`
	held string  // text of a last piece without a token
	err  error
}

// trim trims an engine.
func trim(t testing.TB, e *llmrun.Engine, level llmrun.TrimLevel) {
	t.Helper()
	require.NoError(t, trimError(t, e, level))
}

// trimError trims an engine, and checks that Trim returns how much less it holds.
func trimError(t testing.TB, e *llmrun.Engine, level llmrun.TrimLevel) error {
	t.Helper()
	freed, err := e.Trim(context.Background(), level)
	if err != nil {
		require.Zero(t, freed, "a refused call changes nothing")
	}
	return err
}

// collect runs a generation to its end.
func collect(pieces iter.Seq2[llmrun.Piece, error]) (a answer) {
	for p, err := range pieces {
		if err != nil {
			a.err = err
			continue // nothing may follow an error
		}
		if a.err != nil {
			panic("a piece after an error")
		}
		a.Text += p.Text
		if p.ID == -1 {
			a.held = p.Text
			continue
		}
		a.IDs = append(a.IDs, p.ID)
	}
	return a
}

// complete collects a generation that must succeed.
func complete(t testing.TB, pieces iter.Seq2[llmrun.Piece, error]) answer {
	t.Helper()
	a := collect(pieces)
	require.NoError(t, a.err)
	return a
}

// limit returns options for a greedy generation of at most n tokens that parses special
// tokens in the prompt.
func limit(n int) llmrun.GenerateOptions {
	return llmrun.GenerateOptions{MaxTokens: n, ParseSpecial: true}
}

// fox continues foxPrompt greedily in a new session.
func fox(t testing.TB, e *llmrun.Engine, n int) answer {
	t.Helper()
	return complete(t, newSession(t, e).Generate(context.Background(), foxPrompt, limit(n)))
}

// The tiny model has random weights and no tokenizer.
const (
	tinyVocab   = 32
	tinyDim     = 16
	tinyContext = 64
	tinyEOS     = 31
)

// tinyModel writes the tiny model and returns its directory. edit may change the elements of
// a tensor.
func tinyModel(t testing.TB, edit func(name string, values []float32)) string {
	t.Helper()
	dir := t.TempDir()
	config, err := json.Marshal(map[string]any{
		"architectures": []string{"LlamaForCausalLM"}, "model_type": "llama",
		"hidden_size": tinyDim, "intermediate_size": 24, "num_hidden_layers": 2,
		"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
		"vocab_size": tinyVocab, "max_position_embeddings": tinyContext,
		"rms_norm_eps": 1e-5, "rope_theta": 10000, "hidden_act": "silu",
		"tie_word_embeddings": true, "eos_token_id": tinyEOS,
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
	require.NoError(t, safetensors.Write(vfs.OS(), filepath.Join(dir, "model.safetensors"), tinyTensors(edit)))
	return dir
}

func tinyTensors(edit func(name string, values []float32)) (out []safetensors.TensorData) {
	random := rand.New(rand.NewPCG(1, 2))
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(random.NormFloat64())
			if strings.Contains(name, "norm") {
				values[i] = 1
			}
		}
		if edit != nil {
			edit(name, values)
		}
		data := make([]byte, 0, 4*n)
		for _, v := range values {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		out = append(out, safetensors.TensorData{Name: name, Type: quant.F32, Shape: shape, Data: data})
	}
	add("model.embed_tokens.weight", tinyVocab, tinyDim)
	add("model.norm.weight", tinyDim)
	for _, layer := range []string{"model.layers.0.", "model.layers.1."} {
		add(layer+"input_layernorm.weight", tinyDim)
		add(layer+"post_attention_layernorm.weight", tinyDim)
		add(layer+"self_attn.q_proj.weight", 16, tinyDim)
		add(layer+"self_attn.k_proj.weight", 8, tinyDim)
		add(layer+"self_attn.v_proj.weight", 8, tinyDim)
		add(layer+"self_attn.o_proj.weight", tinyDim, 16)
		add(layer+"mlp.gate_proj.weight", 24, tinyDim)
		add(layer+"mlp.up_proj.weight", 24, tinyDim)
		add(layer+"mlp.down_proj.weight", tinyDim, 24)
	}
	return out
}

// affordable returns the longest context, in tokens, that a test may process. All references
// together take minutes; LLMRUN_TEST_LONG=1 runs them, LLMRUN_TEST_SWEEP=1 some more than without.
func affordable() int {
	switch {
	case os.Getenv("LLMRUN_TEST_LONG") != "":
		return math.MaxInt
	case portable():
		return 512
	case testing.Short():
		return 2048
	}
	return testutil.Effort(2560, 8192)
}

// portable reports whether the kernels use no SIMD, which makes them about ten times slower.
func portable() bool { return strings.HasPrefix(quant.Features(), "portable") }

// skipLongTexts skips a test of texts of thousands of tokens on portable kernels. Package exec
// shows that all kernels give the same logits and select the same pages.
func skipLongTexts(t *testing.T) {
	t.Helper()
	if portable() && affordable() < math.MaxInt {
		t.Skip("long texts on portable kernels; LLMRUN_TEST_LONG=1 reads them")
	}
}

// longTextModel returns the model of tests with long sequences: the demo model, or without
// SIMD a smaller one with random weights. Keys and values take the same paths in both.
func longTextModel(t testing.TB) string {
	t.Helper()
	if !portable() {
		return demoModel
	}
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Vocab = 1024
	return writeShape(t, shape, "f16")
}

// overlay returns a copy of a model's directory with files added or replaced.
func overlay(t testing.TB, dir string, files map[string]string) fstest.MapFS {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := fstest.MapFS{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		out[entry.Name()] = &fstest.MapFile{Data: data}
	}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}
