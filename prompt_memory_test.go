package llmrun_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// TestLongPromptIsReserved converts a prompt of 1 MiB, far longer than the context. The
// budget grants its memory, if need be by releasing weights, and has it back afterwards; a
// budget without room refuses the prompt before it allocates.
func TestLongPromptIsReserved(t *testing.T) {
	prompt := strings.Repeat("the fox ", 1<<17)
	options := llmrun.Options{Threads: 2, Context: 512}
	for _, c := range []struct {
		name    string
		ram     int64
		refused bool
	}{
		{"beside all weights", 120 << 20, false},
		{"by releasing weights", 72 << 20, false},
		{"refused", minimum(t, hubmodel.Pack, options) + 1<<20, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			options.Memory.RAM = c.ram
			e := open(t, hubmodel.Pack, options)
			before := e.Memory()
			for _, pieces := range map[string]func(*llmrun.Session) answer{
				"text": func(s *llmrun.Session) answer {
					return collect(s.Generate(t.Context(), prompt, llmrun.GenerateOptions{}))
				},
				"chat": func(s *llmrun.Session) answer { return collect(s.Chat(t.Context(), prompt, llmrun.GenerateOptions{})) },
			} {
				got := pieces(newSession(t, e))
				if c.refused {
					require.ErrorIs(t, got.err, llmrun.ErrBudget)
					require.ErrorContains(t, got.err, "a prompt of 1 MiB")
				} else {
					require.ErrorIs(t, got.err, llmrun.ErrContextFull)
				}
			}
			after := e.Memory()
			require.Equal(t, before.Held["heap"], after.Held["heap"])
			if !c.refused {
				require.Greater(t, after.Peak["heap"], before.Peak["heap"]+10<<20)
			}
			require.LessOrEqual(t, after.Ledger, c.ram)
			got := collect(newSession(t, e).Generate(t.Context(), foxPrompt, llmrun.GenerateOptions{MaxTokens: 4}))
			require.NoError(t, got.err)
			require.Len(t, got.IDs, 4)
		})
	}
}

// TestFirstRefusalOfAPromptIsEnough follows the minimum that a refusal states once, whether the
// prompt is known when the model is opened or not, for words of any length, and for tokenizers that do
// not split texts into words.
func TestFirstRefusalOfAPromptIsEnough(t *testing.T) {
	t.Parallel()
	spm := string(testutil.Must(os.ReadFile("text/token/testdata/spm/tokenizer.json")))
	models := map[string]string{"": hubmodel.Pack, "spm ": withTokenizer(t, spm), "unigram ": withTokenizer(t, unigramJSON(""))}
	texts := map[string]string{
		"words": strings.Repeat("the fox ", 1<<17), "one word": strings.Repeat("x", 1<<20), "one long word": "a fox " + strings.Repeat("y", 1<<20),
		"short": strings.Repeat("the fox ", 90e3/8), "short word": strings.Repeat("空", 30e3),
	}
	for kind, path := range models {
		for name, prompt := range texts {
			t.Run(kind+name, func(t *testing.T) { followRefusals(t, path, prompt) })
		}
	}
}

// withTokenizer returns a copy of the demo model with another tokenizer.
func withTokenizer(t *testing.T, tokenizer string) (dir string) {
	dir = t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data := testutil.Must(os.ReadFile(filepath.Join(demoModel, name)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(tokenizer), 0o600))
	return dir
}

// followRefusals follows the refusal of opening a model with a known prompt, and that of a prompt that is
// not known.
func followRefusals(t *testing.T, path, prompt string) {
	options := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Prompt: llmrun.PromptMemory(int64(len(prompt)))}}
	answer := func(e *llmrun.Engine) error {
		return collect(newSession(t, e).Generate(t.Context(), prompt, llmrun.GenerateOptions{})).err
	}
	least := minimum(t, path, options)
	options.Memory.RAM = least
	require.ErrorIs(t, answer(open(t, path, options)), llmrun.ErrContextFull)

	options.Memory.Prompt = 0
	alone := minimum(t, path, options)
	require.LessOrEqual(t, alone, least)
	options.Memory.RAM = alone
	e := open(t, path, options)
	err := answer(e)
	if alone == least {
		require.ErrorIs(t, err, llmrun.ErrContextFull)
		return
	}
	var refused *llmrun.MinimumError
	require.ErrorAs(t, err, &refused)
	require.NoError(t, e.SetBudget(refused.Minimum))
	require.ErrorIs(t, answer(e), llmrun.ErrContextFull)
}

// TestVectorsAreReserved counts vectors in a program's room as long as it has them, otherwise until the call ends, and refuses those for
// which there is no room before a pass computes one.
func TestVectorsAreReserved(t *testing.T) {
	options := llmrun.Options{Threads: 2, Context: 512}
	options.Memory.RAM = minimum(t, hubmodel.Pack, options) + 2<<20
	e := open(t, hubmodel.Pack, options)
	before, texts := e.Memory(), [][]int32{slices.Repeat([]int32{12}, 400)}
	room := e.NewRoom("vectors")
	vectors, err := e.EmbedIDs(t.Context(), texts, llmrun.EmbedOptions{Pooling: "none", Room: room})
	require.NoError(t, err)
	bytes := int64(len(vectors) * len(vectors[0]) * 4)
	require.Greater(t, room.Bytes()+128<<10, bytes)
	require.Greater(t, e.Memory().Held["heap"]+128<<10, before.Held["heap"]+bytes)
	_, err = e.EmbedIDs(t.Context(), texts, llmrun.EmbedOptions{Pooling: "none", Room: room})
	require.NoError(t, err)
	require.Greater(t, room.Bytes()+128<<10, 2*bytes, "the room has the vectors of both calls")
	room.Close()
	require.Equal(t, before.Held["heap"], e.Memory().Held["heap"])

	_, err = e.EmbedIDs(t.Context(), texts, llmrun.EmbedOptions{Pooling: "none"})
	require.NoError(t, err)
	require.Equal(t, before.Held["heap"], e.Memory().Held["heap"])
	require.Greater(t, e.Memory().Peak["heap"]+128<<10, before.Held["heap"]+bytes)
	passes := e.PassUse().Passes
	_, err = e.EmbedIDs(t.Context(), slices.Repeat(texts, 40), llmrun.EmbedOptions{Pooling: "none"})
	require.ErrorIs(t, err, llmrun.ErrBudget)
	require.ErrorContains(t, err, "a list of vectors takes up to")
	require.Less(t, e.PassUse().Passes, passes+40)
}
