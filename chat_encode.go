package llmrun

import (
	"slices"
	"strings"
	"unicode"

	"github.com/llmrun/llmrun/text/token"
)

// These marks enclose text of a rendered conversation in which special tokens are plain text.
// Both are Unicode noncharacters, which do not occur in interchanged text.
const (
	plainBegin = "\uFDD0"
	plainEnd   = "\uFDD1"
)

// stripMarks removes marks from the text of messages.
var stripMarks = strings.NewReplacer(plainBegin, "\uFFFD", plainEnd, "\uFFFD")

// encode returns the prompt as token ids. Only special tokens of the template are encoded as
// special tokens. Those spelled by a user, a tool or a document are plain text, so that their
// text cannot end a turn.
func (c *chatFormat) encode(messages []Message, o ChatOptions) ([]int32, error) {
	if c.template == nil {
		return nil, c.invalid
	}
	guarded := slices.Clone(messages)
	for i := range guarded {
		m := &guarded[i]
		m.Role, m.Content = c.markPlain(m.Role), stripMarks.Replace(m.Content)
		if m.Role != "assistant" { // an answer of the model may contain special tokens, such as </think>
			m.Content = c.markPlain(m.Content)
		}
	}
	text, err := c.render(guarded, o)
	if err != nil {
		return nil, err
	}
	var ids []int32
	if c.source == "" && !strings.HasPrefix(text, c.bos) { // a built-in template leaves BOS to the tokenizer
		ids = trimEnd(c.tok.Encode("", token.EncodeOptions{AddSpecial: true}), c.tok.EOS())
	}
	return c.appendMarked(ids, text), nil
}

// markPlain encloses a text that spells special tokens in marks. White space at its ends
// stays outside, because templates trim messages.
func (c *chatFormat) markPlain(text string) string {
	text = stripMarks.Replace(text)
	if !slices.ContainsFunc(c.tok.Encode(text, token.EncodeOptions{AllowSpecial: true}), c.tok.IsSpecial) {
		return text
	}
	inner := strings.TrimLeftFunc(text, unicode.IsSpace)
	before := text[:len(text)-len(inner)]
	inner = strings.TrimRightFunc(inner, unicode.IsSpace)
	after := text[len(before)+len(inner):]
	return before + plainBegin + inner + plainEnd + after
}

// appendMarked appends the ids of a rendered conversation. A template may have cut a marked
// text and dropped one of its marks. The text between a mark and a dropped one is then plain
// text.
func (c *chatFormat) appendMarked(ids []int32, text string) []int32 {
	inside := false
	for {
		at := strings.IndexAny(text, plainBegin+plainEnd)
		if at < 0 {
			return c.tok.AppendEncode(ids, text, token.EncodeOptions{AllowSpecial: !inside})
		}
		closes := strings.HasPrefix(text[at:], plainEnd)
		ids = c.tok.AppendEncode(ids, text[:at], token.EncodeOptions{AllowSpecial: !inside && !closes})
		inside = !closes
		text = text[at+len(plainBegin):]
	}
}
