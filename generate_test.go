package llmrun_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// foxStart is the beginning of the demo model's greedy answer to foxPrompt, one word per
// token.
const foxStart = "Once there lived a brave fox called Ruby. Ruby had a pink hat"

func TestStopStringsAreNotPartOfAnswer(t *testing.T) {
	e := demo(t)
	whole := fox(t, e, 20)
	require.True(t, strings.HasPrefix(whole.Text, foxStart))
	for _, test := range []struct {
		name string
		stop []string
		want string
	}{
		{"one token", []string{" fox"}, "Once there lived a brave"},
		{"across tokens, ends inside a token", []string{"fox called Ru"}, "Once there lived a brave "},
		{"begins inside a token", []string{"ave fox"}, "Once there lived a br"},
		{"the first occurrence wins, not the first in the list", []string{"pink", "called"}, "Once there lived a brave fox "},
		{"a partial match before the full one", []string{"Ruby had"}, "Once there lived a brave fox called Ruby. "},
		{"the very first token", []string{"Once"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSession(t, e)
			o := limit(40)
			o.Stop = test.stop
			a := complete(t, s.Generate(context.Background(), foxPrompt, o))
			require.Equal(t, test.want, a.Text)
			require.Equal(t, llmrun.StopString, s.Stats().StopReason)
			require.Equal(t, whole.IDs[:len(a.IDs)], a.IDs, "the tokens are those without a stop string")
		})
	}
}

func TestIncompleteStopStringIsFlushed(t *testing.T) {
	e := demo(t)
	want := fox(t, e, 8)
	for _, test := range []struct{ name, stop, held string }{
		{"mismatch during the answer", "brave foxes", ""},
		{"partial match at the end", "called Ruby and Max", "called Ruby"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSession(t, e)
			o := limit(8)
			o.Stop = []string{test.stop}
			a := complete(t, s.Generate(context.Background(), foxPrompt, o))
			require.Equal(t, want.Text, a.Text)
			require.Equal(t, test.held, a.held, "text of the last piece, which has no token")
			require.Equal(t, llmrun.StopLength, s.Stats().StopReason)
			require.Equal(t, want.IDs, a.IDs)
		})
	}
}

// TestIncompleteCharacterIsHeldBack makes the model generate half a character.
func TestIncompleteCharacterIsHeldBack(t *testing.T) {
	e := demo(t)
	half := testutil.Must(e.Tokenizer().Encode("ï", llmrun.EncodeOptions{}))
	require.Len(t, half, 2, "the character has to be spelled by two tokens")
	s := newSession(t, e)
	o := limit(1)
	o.Sampling.LogitBias = map[int32]float32{half[0]: 1000}
	var pieces []llmrun.Piece
	for p, err := range s.Generate(context.Background(), foxPrompt, o) {
		require.NoError(t, err)
		pieces = append(pieces, p)
	}
	require.Equal(t, []llmrun.Piece{{ID: half[0]}, {ID: -1, Text: "\uFFFD"}}, pieces)
}

func TestMaxTokens(t *testing.T) {
	e := demo(t)
	want := fox(t, e, 20)
	for _, n := range []int{1, 2, 7} {
		s := newSession(t, e)
		a := complete(t, s.Generate(context.Background(), foxPrompt, limit(n)))
		require.Equal(t, want.IDs[:n], a.IDs)
		stats := s.Stats()
		require.Equal(t, n, stats.GeneratedTokens)
		require.Equal(t, llmrun.StopLength, stats.StopReason)
		require.Equal(t, stats.PromptTokens+n, s.Len())
		require.NoError(t, s.Close())
	}
}

func TestEndOfText(t *testing.T) {
	e := demo(t)
	const prompt = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
	s := newSession(t, e)
	a := complete(t, s.Generate(context.Background(), prompt, limit(200)))
	stats := s.Stats()
	require.Equal(t, llmrun.StopEOS, stats.StopReason)
	require.Equal(t, len(a.IDs), stats.GeneratedTokens, "the end is not part of the text")
	require.NotContains(t, a.Text, "<|im_end|>")
	require.Equal(t, stats.PromptTokens+len(a.IDs), s.Len())

	whole := newSession(t, e)
	o := limit(len(a.IDs) + 5)
	o.IgnoreEOS = true
	b := complete(t, whole.Generate(context.Background(), prompt, o))
	require.Equal(t, llmrun.StopLength, whole.Stats().StopReason)
	require.Len(t, b.IDs, len(a.IDs)+5)
	require.Equal(t, a.IDs, b.IDs[:len(a.IDs)])

	// To continue behind the end, the session processes the last token once more.
	o.MaxTokens = 5
	rest := complete(t, s.Generate(context.Background(), "", o))
	require.Equal(t, b.IDs, append(a.IDs, rest.IDs...))
	require.Equal(t, s.Stats().PromptTokens-1, s.Stats().ReusedTokens)
	require.Equal(t, testutil.Must(e.Tokenizer().Encode("<|im_end|>", llmrun.EncodeOptions{ParseSpecial: true}))[0], b.IDs[len(a.IDs)])
}

// TestBreakFromLoop leaves the loop after some tokens and generates the rest with another
// call.
func TestBreakFromLoop(t *testing.T) {
	e := demo(t)
	want := fox(t, e, 20)
	s := newSession(t, e)
	var ids []int32
	for p, err := range s.Generate(context.Background(), foxPrompt, limit(20)) {
		require.NoError(t, err)
		if ids = append(ids, p.ID); len(ids) == 5 {
			break
		}
	}
	require.Equal(t, llmrun.StopCancelled, s.Stats().StopReason)
	require.Equal(t, 5, s.Stats().GeneratedTokens)
	rest := complete(t, s.Generate(context.Background(), "", limit(15)))
	require.Equal(t, want.IDs, append(ids, rest.IDs...))
	require.Equal(t, s.Len()-15-1, s.Stats().ReusedTokens, "all but the last token")
}

func TestSessionUsableAfterPanicInLoop(t *testing.T) {
	e := demo(t)
	want := fox(t, e, 20)
	s := newSession(t, e)
	var first int32
	require.PanicsWithValue(t, "mine", func() {
		for p := range s.Generate(context.Background(), foxPrompt, limit(20)) {
			first = p.ID
			panic("mine")
		}
	})
	rest := complete(t, s.Generate(context.Background(), "", limit(19)))
	require.Equal(t, want.IDs, append([]int32{first}, rest.IDs...))
}

func TestCancelDuringDecode(t *testing.T) {
	e := demo(t)
	want := fox(t, e, 20)
	cause := errors.New("the client has disconnected")
	s := newSession(t, e)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var ids []int32
	var failure error
	for p, err := range s.Generate(ctx, foxPrompt, limit(20)) {
		if err != nil {
			failure = err
			break
		}
		if ids = append(ids, p.ID); len(ids) == 5 {
			cancel(cause)
		}
	}
	require.ErrorIs(t, failure, cause)
	require.Len(t, ids, 5, "no token after the context has ended")
	require.Equal(t, llmrun.StopCancelled, s.Stats().StopReason)
	rest := complete(t, s.Generate(context.Background(), "", limit(15)))
	require.Equal(t, want.IDs, append(ids, rest.IDs...))
}

// TestCancelDuringPrefill cancels after the first chunk. The prompt does not become part of
// the session, and repeating the call does not process the chunk again.
func TestCancelDuringPrefill(t *testing.T) {
	const chunk = 8
	e := open(t, demoModel, llmrun.Options{Memory: llmrun.MemoryOptions{Chunk: chunk}})
	want := fox(t, e, 10)
	s := newSession(t, e)
	ctx, cancel := context.WithCancel(context.Background())
	o := limit(10)
	chunks := 0
	o.OnPrefill = func(done, total int) {
		require.Equal(t, 21, total)
		chunks++
		cancel()
	}
	a := collect(s.Generate(ctx, foxPrompt, o))
	require.ErrorIs(t, a.err, context.Canceled)
	require.Empty(t, a.IDs)
	require.Equal(t, 1, chunks, "no chunk after the context has ended")
	require.Zero(t, s.Len())
	require.Equal(t, llmrun.StopCancelled, s.Stats().StopReason)

	a = complete(t, s.Generate(context.Background(), foxPrompt, limit(10)))
	require.Equal(t, want.IDs, a.IDs)
	require.Equal(t, chunk, s.Stats().ReusedTokens)

	a = collect(s.Generate(ctx, " And", limit(10)))
	require.ErrorIs(t, a.err, context.Canceled, "a context that ended before the call")
	require.Equal(t, 31, s.Len())
}

func TestFullContext(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Context: 40})
	s := newSession(t, e)
	require.Equal(t, 40, s.Limit())
	a := complete(t, s.Generate(context.Background(), foxPrompt, limit(0)))
	require.Equal(t, llmrun.StopContext, s.Stats().StopReason)
	require.Len(t, a.IDs, 40-21+1, "the last token is generated but not processed")
	require.Equal(t, fox(t, demo(t), 20).IDs, a.IDs, "the limit changes nothing before it")
	for _, prompt := range []string{"", "more"} {
		require.ErrorIs(t, collect(s.Generate(context.Background(), prompt, limit(1))).err, llmrun.ErrContextFull)
		require.Equal(t, llmrun.StopError, s.Stats().StopReason)
		require.Equal(t, 41, s.Len())
	}
	require.NoError(t, s.Reset())
	require.Equal(t, a.IDs, complete(t, s.Generate(context.Background(), foxPrompt, limit(0))).IDs)

	require.NoError(t, s.Reset())
	too := strings.Repeat(" word", 60)
	require.ErrorIs(t, collect(s.Chat(context.Background(), too, limit(1))).err, llmrun.ErrContextFull)
	require.Empty(t, s.Messages(), "a turn without an answer is not part of the conversation")
}

func TestParseSpecial(t *testing.T) {
	e := demo(t)
	for _, parse := range []bool{true, false} {
		s := newSession(t, e)
		complete(t, s.Generate(context.Background(), foxPrompt, llmrun.GenerateOptions{MaxTokens: 1, ParseSpecial: parse}))
		want := len(testutil.Must(e.Tokenizer().Encode(foxPrompt, llmrun.EncodeOptions{ParseSpecial: parse})))
		require.Equal(t, want, s.Stats().PromptTokens)
	}
}
