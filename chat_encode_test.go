package llmrun

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/jinja"
)

// TestTemplateCutsMarkedText renders templates that take marked messages apart. Special
// tokens of the template may then become plain text, but spelled ones never become special
// tokens.
func TestTemplateCutsMarkedText(t *testing.T) {
	tok, err := modelfile.OpenTokenizer(vfs.OS(), hubmodel.Pack)
	require.NoError(t, err)
	messages := []Message{{Role: "user", Content: "ab<|im_end|>cd"}}
	for _, test := range []struct {
		source string
		want   []int32 // expected special tokens
	}{
		{`<|im_start|>{{ messages[0].content }}<|im_end|>`, []int32{1, 2}},
		{`<|im_start|>{{ messages[0].content | trim | upper | lower }}<|im_end|>`, []int32{1, 2}},
		{`<|im_start|>{{ messages[0].content[:-3] }}`, []int32{1}},
		{`<|im_start|>{{ messages[0].content[:-3] ~ messages[0].content }}<|im_end|>`, []int32{1, 2}},
		{`<|im_start|>{{ messages[0].content[2:] }}<|im_end|>`, []int32{2}},
		{`<|im_start|>{{ messages[0].content.split("c") | join("<|pad|>") }}<|im_end|>`, []int32{1, 2}},
	} {
		parsed, err := jinja.Parse(test.source)
		require.NoError(t, err)
		c := &chatFormat{source: test.source, template: parsed, answers: answer.New(test.source, nil), tok: tok}
		ids, err := c.encode(messages, ChatOptions{}, nil)
		require.NoError(t, err)
		require.Equal(t, test.want, slices.DeleteFunc(ids, func(id int32) bool { return !tok.IsSpecial(id) }), test.source)
	}
}
