package llmrun

import (
	"encoding/json"
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
func (c *chatFormat) encode(messages []Message, o ChatOptions, room *promptRoom) ([]int32, error) {
	ids, _, err := c.encodeAnswered(messages, o, room)
	return ids, err
}

// encodeAnswered is encode, and returns how the answer is read.
func (c *chatFormat) encodeAnswered(messages []Message, o ChatOptions, room *promptRoom) (_ []int32, r *reading, err error) {
	if c.template == nil {
		return nil, nil, c.invalid
	}
	if err := c.holdCalls(&o); err != nil {
		return nil, nil, err
	}
	guarded, err := c.guard(messages, &o, room)
	if err != nil {
		return nil, nil, err
	}
	text, begun, err := c.prompt(guarded, o, room)
	if err != nil {
		return nil, nil, err
	}
	var ids []int32
	if c.source == "" && !strings.HasPrefix(text, c.bos) { // a built-in template leaves BOS to the tokenizer
		if ids, err = c.tok.Encode("", token.EncodeOptions{AddSpecial: true, OpenEnd: true}); err != nil {
			return nil, nil, err
		}
	}
	r = c.reading(text, begun, &o)
	r.required, r.calls, r.decided = o.requires() && !o.NoGenerationPrompt, o.held, o.decided
	if r.behind, err = c.encodeBehind(text+begun, &o, room); err != nil {
		return nil, nil, err
	}
	ids, err = c.appendMarked(ids, text+begun, room)
	return ids, r, err
}

// guard returns messages and, in the options, tools in which text that spells special tokens is marked.
func (c *chatFormat) guard(messages []Message, o *ChatOptions, room *promptRoom) (_ []Message, err error) {
	mark := func(text *string) {
		if err == nil && *text != "" {
			*text, err = c.markPlain(*text, room)
		}
	}
	guarded := cloneMessages(messages)
	for i := range guarded {
		m := &guarded[i]
		m.Content, m.Thinking = stripMarks.Replace(m.Content), stripMarks.Replace(m.Thinking)
		if m.Role != "assistant" { // an answer of the model may contain special tokens, such as </think>
			mark(&m.Content)
		}
		mark(&m.Role)
		mark(&m.Name)
		mark(&m.ToolCallID)
		for j := range m.ToolCalls {
			call := &m.ToolCalls[j]
			mark(&call.ID)
			mark(&call.Name)
			if err == nil {
				call.Arguments, err = c.markJSON(call.Arguments, room)
			}
		}
	}
	o.Tools = slices.Clone(o.Tools)
	for i := range o.Tools {
		t := &o.Tools[i]
		mark(&t.Name)
		mark(&t.Description)
		if err == nil && len(t.Parameters) > 0 {
			var parameters string
			parameters, err = c.markJSON(string(t.Parameters), room)
			t.Parameters = []byte(parameters)
		}
	}
	return guarded, err
}

// markJSON marks the strings of JSON that spell special tokens. Text that is no JSON is marked as a whole.
func (c *chatFormat) markJSON(text string, room *promptRoom) (string, error) {
	marked, err := c.markPlain(text, room)
	if err != nil || marked == text && !strings.Contains(text, `\u`) {
		return marked, err
	}
	var b strings.Builder
	for text != "" { // strings begin and end at quotes that are not escaped
		at := strings.IndexByte(text, '"')
		if at < 0 {
			break
		}
		end := at + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(text) {
			break
		}
		var value string
		if json.Unmarshal([]byte(text[at:end+1]), &value) != nil {
			break
		}
		quoted := text[at : end+1]
		plain, err := c.markPlain(value, room)
		if err != nil {
			return "", err
		}
		if plain != value {
			raw, _ := json.Marshal(plain) // never fails
			quoted = string(raw)
		}
		b.WriteString(text[:at] + quoted)
		text = text[end+1:]
	}
	rest, err := c.markPlain(text, room)
	b.WriteString(rest)
	return b.String(), err
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
//
// The text is encoded as a whole without its marks: tokenizers treat the beginning of a text otherwise than the same
// characters in it.
func (c *chatFormat) appendMarked(ids []int32, text string, room *promptRoom) ([]int32, error) {
	options := token.EncodeOptions{AllowSpecial: true}
	var whole strings.Builder
	marked, inside := false, false
	for {
		at := strings.IndexAny(text, plainBegin+plainEnd)
		if at < 0 && !marked {
			break
		}
		end := at
		if at < 0 {
			end = len(text)
		}
		closes := at >= 0 && strings.HasPrefix(text[at:], plainEnd)
		if inside || closes {
			options.Plain = append(options.Plain, token.Span{Begin: whole.Len(), End: whole.Len() + end})
		}
		whole.WriteString(text[:end])
		if at < 0 {
			text = whole.String()
			break
		}
		marked, inside, text = true, !closes, text[at+len(plainBegin):]
	}
	return c.tok.AppendEncode(ids, text, room.encodeOptions(options))
}
