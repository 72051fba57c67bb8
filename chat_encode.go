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
//
// room is the memory for the conversion; nil reserves none.
func (c *chatFormat) encode(messages []Message, o ChatOptions, room *promptRoom) (_ []int32, err error) {
	if c.template == nil {
		return nil, c.invalid
	}
	guarded := slices.Clone(messages)
	for i := range guarded {
		m := &guarded[i]
		m.Content = stripMarks.Replace(m.Content)
		if m.Role != "assistant" { // an answer of the model may contain special tokens, such as </think>
			if m.Content, err = c.markPlain(m.Content, room); err != nil {
				return nil, err
			}
		}
		if m.Role, err = c.markPlain(m.Role, room); err != nil {
			return nil, err
		}
	}
	text, err := c.render(guarded, o, room)
	if err != nil {
		return nil, err
	}
	var ids []int32
	if c.source == "" && !strings.HasPrefix(text, c.bos) { // a built-in template leaves BOS to the tokenizer
		if ids, err = c.tok.Encode("", token.EncodeOptions{AddSpecial: true, OpenEnd: true}); err != nil {
			return nil, err
		}
	}
	return c.appendMarked(ids, text, room)
}

// markPlain encloses a text that spells special tokens in marks. White space at its ends
// stays outside, because templates trim messages.
func (c *chatFormat) markPlain(text string, room *promptRoom) (string, error) {
	text = stripMarks.Replace(text)
	ids, err := c.tok.Encode(text, room.encodeOptions(token.EncodeOptions{AllowSpecial: true}))
	if err != nil || !slices.ContainsFunc(ids, c.tok.IsSpecial) {
		return text, err
	}
	inner := strings.TrimLeftFunc(text, unicode.IsSpace)
	before := text[:len(text)-len(inner)]
	inner = strings.TrimRightFunc(inner, unicode.IsSpace)
	after := text[len(before)+len(inner):]
	return before + plainBegin + inner + plainEnd + after, nil
}

// appendMarked appends the ids of a rendered conversation. A template may have cut a marked
// text and dropped one of its marks. The text between a mark and a dropped one is then plain
// text.
func (c *chatFormat) appendMarked(ids []int32, text string, room *promptRoom) (_ []int32, err error) {
	inside := false
	for {
		at := strings.IndexAny(text, plainBegin+plainEnd)
		if at < 0 {
			return c.tok.AppendEncode(ids, text, room.encodeOptions(token.EncodeOptions{AllowSpecial: !inside}))
		}
		closes := strings.HasPrefix(text[at:], plainEnd)
		if ids, err = c.tok.AppendEncode(ids, text[:at], room.encodeOptions(token.EncodeOptions{AllowSpecial: !inside && !closes})); err != nil {
			return nil, err
		}
		inside = !closes
		text = text[at+len(plainBegin):]
	}
}
