package llmrun_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/tiering"
)

// longTokenModel writes a model whose tokenizer has two kilobytes. Each of its tokens but the first is a text of 56 KiB: the
// decoder doubles letters eleven times.
func longTokenModel(t *testing.T) string {
	t.Helper()
	dir := tinyModel(t, nil)
	var vocab, decoders []string
	vocab = append(vocab, `"x":0`)
	for id := 1; id < tinyVocab; id++ {
		vocab = append(vocab, fmt.Sprintf(`"%s%d":%d`, strings.Repeat("a", 28), id, id))
	}
	for letter := 'a'; letter < 'l'; letter++ {
		decoders = append(decoders, fmt.Sprintf(`{"type":"Replace","pattern":{"String":"%c"},"content":"%c%c"}`, letter, letter+1, letter+1))
	}
	file := fmt.Sprintf(`{"model":{"type":"BPE","unk_token":"x","vocab":{%s},"merges":[]},"decoder":{"type":"Sequence","decoders":[%s]}}`, strings.Join(vocab, ","), strings.Join(decoders, ","))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(file), 0o600))
	return dir
}

// TestTheBudgetCountsTheTextOfAnswers generates answers of megabytes from a few tokens. The budget counts them, refuses
// what it has no room for, and gets the memory back: at once what no conversation keeps, and with the session the rest.
func TestTheBudgetCountsTheTextOfAnswers(t *testing.T) {
	o := llmrun.Options{Threads: 1, Context: tinyContext}
	path := longTokenModel(t)
	least := minimum(t, path, o)
	o.Memory.RAM = least + 12<<20
	e := open(t, path, o)
	heap := func() int64 { return e.Memory().Held[tiering.Heap.String()] }
	before := heap()
	generate := limit(60)
	generate.IgnoreEOS = true
	generate.Sampling.LogitBias = map[int32]float32{0: float32(math.Inf(-1))}

	s := newSession(t, e)
	most := int64(0)
	var text int
	var failed error
	for p, err := range s.GenerateIDs(t.Context(), []int32{1, 2}, generate) {
		text, failed, most = text+len(p.Text), err, max(most, heap())
	}
	require.ErrorIs(t, failed, llmrun.ErrBudget)
	require.ErrorContains(t, failed, "the text of the answers takes up to ")
	require.Greater(t, text, 512<<10)
	require.Less(t, text, 2<<20)
	require.Greater(t, most, before+4<<20)
	require.LessOrEqual(t, e.Memory().Ledger, o.Memory.RAM)
	require.Equal(t, before, heap(), "nothing keeps the text")

	// In a larger budget the conversation keeps it.
	require.NoError(t, e.SetBudget(least+64<<20))
	require.NoError(t, s.Reset())
	generate.MaxTokens = 30
	got := complete(t, s.ChatMessages(t.Context(), llmrun.AddUserMessage(nil, "?"), generate))
	require.Greater(t, len(got.Text), 512<<10)
	require.Greater(t, heap(), before)
	require.NoError(t, s.Close())
	require.Equal(t, before, heap())
}
