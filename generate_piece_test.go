package llmrun

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/text/channel"
	"github.com/llmrun/llmrun/text/sample"
	"github.com/llmrun/llmrun/text/token"
)

// harmonyTokenizer has single letters and the special tokens of harmony.
func harmonyTokenizer(t *testing.T) *token.Tokenizer {
	vocab, added := map[string]int{}, []map[string]any{}
	for _, c := range "abcdefghijklmnopqrstuvwxyzé .=" {
		vocab[string(c)] = len(vocab)
	}
	for _, c := range []string{"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"} {
		added = append(added, map[string]any{"id": len(vocab) + len(added), "content": c, "special": true})
	}
	text, err := json.Marshal(map[string]any{"added_tokens": added, "model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
	require.NoError(t, err)
	tok, err := token.FromJSON(text, token.Config{})
	require.NoError(t, err)
	return tok
}

// TestPiecesBelongToChannels decodes the tokens of an answer with a thought: marks and headers have no
// text, and text that a stop string held back appears in the channel that it belongs to.
func TestPiecesBelongToChannels(t *testing.T) {
	tok := harmonyTokenizer(t)
	encode := func(text string) []int32 {
		ids, err := tok.Encode(text, token.EncodeOptions{AllowSpecial: true})
		require.NoError(t, err)
		return ids
	}
	stops, err := sample.NewStopMatcher([]string{"xyz"})
	require.NoError(t, err)
	g := &generation{decoder: tok.NewDecoder(), stops: stops, yield: func(Piece, error) bool { return true }}
	g.channel = channel.New(tok.ID, tok.TokenBytes).Behind(encode("<|start|>user<|message|>hi<|end|><|start|>assistant"))
	texts := map[string]string{}
	for _, id := range encode("<|channel|>analysis<|message|>hmxy<|end|><|start|>assistant<|channel|>final<|message|>yesxyzno") {
		next := sampled{Piece: Piece{ID: id}}
		g.decodeToken(&next)
		texts[next.Channel] += next.Text
		g.emit(next.Piece)
		if next.stopped {
			break
		}
	}
	require.Equal(t, map[string]string{"": "", ChannelAnalysis: "hmxy", ChannelFinal: "yes"}, texts)
	require.Equal(t, "yes", g.answer.Text(), "the conversation keeps the answer alone")
}

// TestCandidatesHoldTheAnswerAlone continues an answer behind tokens that another generation gave: what they think and
// their marks are not before the text that a stop string is looked for in, and the candidate has the text of its answer.
func TestCandidatesHoldTheAnswerAlone(t *testing.T) {
	tok := harmonyTokenizer(t)
	encode := func(text string) []int32 {
		ids, err := tok.Encode(text, token.EncodeOptions{AllowSpecial: true})
		require.NoError(t, err)
		return ids
	}
	const prompt, thought, answer = "<|start|>assistant", "<|channel|>analysis<|message|>hm", "<|end|><|start|>assistant<|channel|>final<|message|>yes"
	f := channel.New(tok.ID, tok.TokenBytes)
	all := encode(thought + answer)
	for _, before := range []int{0, 1, 5, len(encode(thought)), len(all) - 1} {
		stops, err := sample.NewStopMatcher([]string{"finalyes"})
		require.NoError(t, err)
		g := &generation{decoder: tok.NewDecoder(), stops: stops, ids: encode(prompt)}
		g.ids = append(g.ids, all[:before]...)
		g.options.answered = all[:before]
		require.NoError(t, g.beginAnswer(f))
		var c Candidate
		var text strings.Builder
		for _, id := range all[before:] {
			next := sampled{Piece: Piece{ID: id}}
			g.decodeToken(&next)
			require.False(t, next.stopped, "%d tokens before", before)
			c.add(&next.Piece, &text)
		}
		require.Equal(t, ChannelFinal, g.channel.Channel())
		require.Equal(t, all[before:], c.IDs)
		require.Equal(t, "yes"[max(0, 3-len(all)+before):], text.String(), "%d tokens before", before)
	}
}

// TestCallsOfChannelsAreSeparate decodes two calls of one tool, whose headers are between them, and one of another.
func TestCallsOfChannelsAreSeparate(t *testing.T) {
	tok := harmonyTokenizer(t)
	encode := func(text string) []int32 {
		ids, err := tok.Encode(text, token.EncodeOptions{AllowSpecial: true})
		require.NoError(t, err)
		return ids
	}
	stops, err := sample.NewStopMatcher(nil)
	require.NoError(t, err)
	g := &generation{decoder: tok.NewDecoder(), stops: stops, yield: func(Piece, error) bool { return true }}
	g.channel = channel.New(tok.ID, tok.TokenBytes).Behind(encode("<|start|>assistant"))
	const call = "<|channel|>commentary to=functions.%<|constrain|>json<|message|>"
	answer := strings.ReplaceAll(call, "%", "f") + "a<|call|><|start|>assistant" + strings.ReplaceAll(call, "%", "f") + "b<|call|><|start|>assistant" +
		"<|channel|>analysis<|message|>hm<|end|><|start|>assistant" + strings.ReplaceAll(call, "%", "g") + "c"
	for _, id := range encode(answer) {
		next := sampled{Piece: Piece{ID: id}}
		g.decodeToken(&next)
		g.emit(next.Piece)
	}
	g.stats.StopReason = StopEOS
	ends := 0
	g.yield = func(p Piece, _ error) bool { ends++; require.True(t, p.CallEnds); return true }
	g.flush()
	require.Equal(t, 1, ends)
	var got []string
	for _, c := range g.answer.ToolCalls() {
		got = append(got, c.Name+" "+c.Arguments)
		require.Len(t, c.ID, callIDLength)
	}
	require.Equal(t, []string{"f a", "f b", "g c"}, got)
	require.Equal(t, "hm", g.answer.Thinking())
	require.Empty(t, g.answer.Text())
}
