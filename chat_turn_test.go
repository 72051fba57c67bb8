package llmrun_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestInterruptedPromptIsKept interrupts the prompt of a session with KeepPrompt: it was saved when its prefill
// started, and after the interruption another process answers the next question with the document, as if the
// session had begun with both.
func TestInterruptedPromptIsKept(t *testing.T) {
	skipLongTexts(t)
	dir := t.TempDir()
	o := llmrun.Options{Notify: func(text string) { t.Error(text) }, Cache: llmrun.CacheOptions{KVDir: dir}, Memory: llmrun.MemoryOptions{Chunk: 64}}
	doc, question := strings.TrimSpace(strings.Repeat("Tom had a red ball. ", 90)), "What did Tom have?"
	want := complete(t, newSession(t, demo(t)).Chat(t.Context(), doc+"\n\n"+question, limit(8)))

	e := open(t, demoModel, o)
	s, err := e.OpenSession("doc", llmrun.SessionOptions{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	options, atStart := limit(8), -1
	options.KeepPrompt, options.KeepText = true, doc
	options.OnPrefill = func(done, _ int) {
		if atStart < 0 {
			saved, err := llmrun.ShowSession(dir, "doc")
			require.NoError(t, err)
			atStart = saved.Tokens
		}
		if done >= 300 {
			cancel()
		}
	}
	require.ErrorIs(t, collect(s.Chat(ctx, doc+"\n\nWho is Tom?", options)).err, context.Canceled)
	require.Equal(t, s.Stats().PromptTokens, atStart, "the session is saved when its prompt starts")
	kept := []llmrun.Message{{Role: "user", Content: doc}}
	require.Equal(t, kept, s.Messages(), "without the question")
	require.NoError(t, s.Save(""))
	require.NoError(t, e.Close())

	s, err = open(t, demoModel, o).OpenSession("doc", llmrun.SessionOptions{})
	require.NoError(t, err)
	require.Equal(t, kept, s.Messages())
	require.Equal(t, want, complete(t, s.Chat(t.Context(), question, limit(8))))
	require.GreaterOrEqual(t, s.Stats().RestoredTokens, 256)
	require.Equal(t, []llmrun.Message{{Role: "user", Content: doc + "\n\n" + question}, {Role: "assistant", Content: want.Text}}, s.Messages())
	require.NoError(t, s.Close())
}

// TestInterruptedTokensAreKept interrupts a prompt that is no conversation: the session continues behind it.
func TestInterruptedTokensAreKept(t *testing.T) {
	doc := document(700)
	want := ids(t, newSession(t, open(t, longTextModel(t), llmrun.Options{})), append(document(700), 30, 31), 8)
	s := newSession(t, open(t, longTextModel(t), llmrun.Options{Memory: llmrun.MemoryOptions{Chunk: 64}}))
	ctx, cancel := context.WithCancel(t.Context())
	options := drawn(8)
	options.KeepPrompt, options.OnPrefill = true, func(int, int) { cancel() }
	require.ErrorIs(t, collect(s.GenerateIDs(ctx, doc, options)).err, context.Canceled)
	require.Equal(t, len(doc), s.Len())
	require.Equal(t, want, ids(t, s, []int32{30, 31}, 8))
}

// TestInterruptedSamplesKeepTheirPrompt does the same before several answers.
func TestInterruptedSamplesKeepTheirPrompt(t *testing.T) {
	s := newSession(t, demo(t))
	prompt := llmrun.Prompt{Messages: []llmrun.Message{{Role: "user", Content: "Tell me a story about a fox."}}}
	ctx, cancel := context.WithCancel(t.Context())
	options := llmrun.CandidateOptions{GenerateOptions: limit(4), N: 2}
	options.KeepPrompt, options.OnPrefill = true, func(int, int) { cancel() }
	for _, err := range s.Candidates(ctx, prompt, options) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, prompt.Messages, s.Messages())
	options.OnPrefill = nil
	for _, err := range s.Candidates(t.Context(), prompt, options) {
		require.NoError(t, err)
	}
	require.Equal(t, prompt.Messages, s.Messages(), "an earlier message without an answer stays until a candidate is chosen")
}

// TestAnswersWithoutTextAreTurns ends an answer before its text: it has a token, so it is a turn. One without a token
// is none, also if its prompt was to be kept.
func TestAnswersWithoutTextAreTurns(t *testing.T) {
	e := demo(t)
	s := newSession(t, e)
	options := limit(8)
	first := complete(t, newSession(t, e).Chat(t.Context(), "Hello", limit(1))).Text
	require.NotEmpty(t, first)
	options.Stop = []string{first}
	require.Empty(t, complete(t, s.Chat(t.Context(), "Hello", options)).Text)
	want := []llmrun.Message{{Role: "user", Content: "Hello"}, {Role: "assistant"}}
	require.Equal(t, want, s.Messages())

	ends, err := e.Tokenizer().Encode("<|im_end|>", llmrun.EncodeOptions{ParseSpecial: true})
	require.NoError(t, err)
	options.Sampling.LogitBias = map[int32]float32{ends[0]: 1000}
	options.KeepPrompt = true
	require.Empty(t, complete(t, s.Chat(t.Context(), "And then?", options)).Text)
	require.Equal(t, want, s.Messages())
}

// TestAddUserMessage checks what becomes of a message without an answer.
func TestAddUserMessage(t *testing.T) {
	user := func(text string) []llmrun.Message { return []llmrun.Message{{Role: "user", Content: text}} }
	require.Equal(t, user("a"), llmrun.AddUserMessage(nil, "a"))
	require.Equal(t, user("a\n\nb"), llmrun.AddUserMessage(user("a"), "b"))
	require.Equal(t, user("a\n\nb"), llmrun.AddUserMessage(user("a"), "a\n\nb"), "a prompt that begins with it takes its place")
	answered := append(user("a"), llmrun.Message{Role: "assistant", Content: "x"})
	require.Equal(t, append(answered, user("b")...), llmrun.AddUserMessage(answered, "b"))
	room := append(make([]llmrun.Message, 0, 4), user("a")...)
	llmrun.AddUserMessage(room, "b")
	require.Equal(t, user("a"), room, "the argument does not change")
}
