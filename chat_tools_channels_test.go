package llmrun

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/text/channel"
	"github.com/llmrun/llmrun/text/sample"
	"github.com/llmrun/llmrun/text/token"
)

// harmonyTemplate writes conversations as gpt-oss reads them.
const harmonyTemplate = `{% for m in messages %}{% if m.role == 'assistant' %}` +
	`{% if m.thinking and m.tool_calls %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}` +
	`{% if m.tool_calls %}{% set f = m.tool_calls[0].function %}<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary json<|message|>{{ f.arguments | tojson }}<|call|>` +
	`{% else %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% endif %}` +
	`{% elif m.role == 'tool' %}<|start|>functions.{{ m.name }} to=assistant<|channel|>commentary<|message|>{{ m.content | tojson }}<|end|>` +
	`{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}{% if loop.first and tools %} namespace functions { {% for t in tools %}{{ t | tojson }}{% endfor %} }{% endif %}<|end|>{% endif %}{% endfor %}` +
	`{{ reasoning_effort }}{% if add_generation_prompt %}<|start|>assistant{% endif %}`

// byteTokenizer has a token for each byte, the special tokens of harmony, and tokens of the given words.
func byteTokenizer(t *testing.T, words ...string) *token.Tokenizer {
	t.Helper()
	vocab, added := map[string]int{}, []map[string]any{}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = b
	}
	add := func(text string, special bool) {
		added = append(added, map[string]any{"id": len(vocab) + len(added), "content": text, "special": special})
	}
	for _, mark := range []string{"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"} {
		add(mark, true)
	}
	for _, word := range words {
		add(word, false)
	}
	text, err := json.Marshal(map[string]any{"added_tokens": added, "model": map[string]any{"type": "BPE", "byte_fallback": true, "vocab": vocab, "merges": []string{}}})
	require.NoError(t, err)
	tok, err := token.FromJSON(text, token.Config{})
	require.NoError(t, err)
	return tok
}

// TestHarmonyCallsAreReadBack renders a conversation with a thought and a call as gpt-oss reads it, takes what the template writes for them
// as the model's answer, and reads it back: with the arguments as one token, and byte by byte. The other spelling of the header, which
// the model prefers, is read in the same way, and what the user reads is apart.
func TestHarmonyCallsAreReadBack(t *testing.T) {
	call := weatherCalls[0]
	o := ChatOptions{Tools: []Tool{weather}}
	asked := []Message{{Role: "user", Content: "How is the weather?"}}
	for name, words := range map[string][]string{
		"byte by byte": nil,
		"whole":        {call.Arguments, "functions.weather", "hm, Zürich", "It is sunny in Zürich.", "commentary", "analysis"},
	} {
		t.Run(name, func(t *testing.T) {
			tok := byteTokenizer(t, words...)
			c := formatOf(t, harmonyTemplate)
			c.tok, c.channels = tok, channel.New(tok.ID, tok.TokenBytes)
			encode := func(text string) []int32 {
				ids, err := tok.Encode(text, token.EncodeOptions{AllowSpecial: true})
				require.NoError(t, err)
				return ids
			}
			prompt, begun, err := c.prompt(asked, o, nil)
			require.NoError(t, err)
			require.Contains(t, prompt, "its name")
			require.Empty(t, begun)
			answered := Message{Role: "assistant", Thinking: "hm, Zürich", ToolCalls: []ToolCall{call}}
			all, _, err := c.prompt(append(asked, answered), ChatOptions{Tools: o.Tools, NoGenerationPrompt: true}, nil)
			require.NoError(t, err)
			reply, ok := strings.CutPrefix(all, prompt)
			require.True(t, ok, all)

			read := func(prompt, begun, reply string, o *ChatOptions) *Answer {
				stops, err := sample.NewStopMatcher(nil)
				require.NoError(t, err)
				g := &generation{decoder: tok.NewDecoder(), stops: stops, yield: func(Piece, error) bool { return true }, ids: encode(prompt + begun)}
				g.options.reading = c.reading(prompt, begun, o)
				require.NoError(t, g.beginAnswer(c.channels))
				for _, id := range encode(reply) {
					next := sampled{Piece: Piece{ID: id}}
					g.decodeToken(&next)
					g.emit(next.Piece)
				}
				g.stats.StopReason = StopEOS
				g.flush()
				return &g.answer
			}
			const own = "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
			ends := strings.TrimSuffix(reply, "<|call|>") // which ends the generation
			for _, reply := range []string{reply, ends, strings.Replace(ends, " to=functions.weather<|channel|>commentary json<|message|>", own, 1)} {
				got := read(prompt, "", reply, &o)
				require.Empty(t, got.Text())
				require.Equal(t, answered.Thinking, got.Thinking())
				requireCalls(t, []ToolCall{call}, got)
			}
			got := read(prompt, "", "<|channel|>analysis<|message|>hm, Zürich<|end|><|start|>assistant<|channel|>final<|message|>It is sunny in Zürich.", &o)
			require.Equal(t, Message{Role: "assistant", Content: "It is sunny in Zürich.", Thinking: "hm, Zürich"}, got.Message())

			// A required call comes behind thoughts, and at once if there are none. The rest of it is the answer.
			for level, thinks := range map[string]bool{"": true, ThinkHigh: true, ThinkOff: false} {
				o := ChatOptions{Tools: o.Tools, ToolChoice: ToolsRequired, Thinking: level}
				prompt, begun, err := c.prompt(asked, o, nil)
				require.NoError(t, err)
				behind, err := c.encodeBehind(prompt+begun, &o, nil)
				require.NoError(t, err)
				reply := call.Arguments
				require.Equal(t, thinks, behind != nil)
				if thinks {
					require.Equal(t, analysisBegin, begun)
					require.Equal(t, [][]int32{encode("<|end|>"), encode("<|start|>assistant" + own)}, [][]int32{behind.end, behind.call})
					reply = "hm, Zürich<|end|><|start|>assistant" + own + reply
				} else {
					require.Equal(t, own, begun, "not behind the header of what the user reads")
				}
				got := read(prompt, begun, reply, &o)
				require.Equal(t, thinks, got.Thinking() == "hm, Zürich")
				requireCalls(t, []ToolCall{call}, got)
			}

			// The name of one of several tools is held with its arguments. It begins in the header.
			for held, want := range map[bool]string{true: "functions", false: "functions."} {
				o := ChatOptions{Tools: append(o.Tools, Tool{Name: "other"}), ToolChoice: ToolsRequired, Thinking: ThinkOff}
				if held {
					require.NoError(t, c.holdCalls(&o))
				}
				_, begun, err := c.prompt(asked, o, nil)
				require.NoError(t, err)
				require.Equal(t, "<|channel|>commentary to="+want, begun)
				requireCalls(t, []ToolCall{call}, read(prompt, begun, strings.TrimPrefix(own, begun)+call.Arguments, &o))
			}

			// The result of the call is part of the next prompt.
			all, _, err = c.prompt(append(asked, answered, Message{Role: "tool", Content: "sunny", ToolCallID: call.ID, Name: "weather"}), o, nil)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(all, `<|call|><|start|>functions.weather to=assistant<|channel|>commentary<|message|>"sunny"<|end|><|start|>assistant`), all)
		})
	}
}
