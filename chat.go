package llmrun

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/token"
	"github.com/llmrun/llmrun/exec/token/template"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user" or "assistant"
	Content string `json:"content"`
}

// ChatOptions are the choices for turning messages into a prompt.
type ChatOptions struct {
	NoGenerationPrompt bool           // do not open the assistant's next turn
	Now                time.Time      // the date that a template may show; zero = now
	Extra              map[string]any // further variables, such as enable_thinking
}

// RenderChat returns the prompt that the model's template makes of messages.
func (e *Engine) RenderChat(messages []Message, o ChatOptions) (string, error) {
	return e.chat.render(messages, o)
}

// Chat adds a user's message to the session's conversation and generates the
// answer, which becomes part of the conversation too. What the session has
// read of the conversation before is not read again.
func (s *Session) Chat(ctx context.Context, user string, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.chat(ctx, func() []Message {
		return append(slices.Clone(s.messages), Message{Role: "user", Content: user})
	}, o)
}

// ChatMessages makes messages the session's conversation and generates what
// the assistant says next.
func (s *Session) ChatMessages(ctx context.Context, messages []Message, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.chat(ctx, func() []Message { return slices.Clone(messages) }, o)
}

// chat generates the answer to messages, which are worked out once the session
// is claimed. An answer that broke off stays in the conversation; one that
// never began leaves the conversation as it was.
func (s *Session) chat(ctx context.Context, messages func() []Message, o GenerateOptions) iter.Seq2[Piece, error] {
	var all []Message
	prompt := func() ([]int32, error) {
		all = messages()
		return s.engine.chat.encode(all)
	}
	done := func(text string, err error) {
		if err == nil || text != "" {
			s.messages = append(all, Message{Role: "assistant", Content: text})
		}
	}
	return s.run(ctx, o, prompt, done)
}

// chatFormat turns conversations into prompts.
type chatFormat struct {
	source   string // the model's own template, "" = a built-in one is used
	template *template.Template
	tok      *token.Tokenizer // nil: none
	bos, eos string           // as text, which templates ask for
}

func newChatFormat(f *exec.Files, t *token.Tokenizer) (*chatFormat, error) {
	c := &chatFormat{tok: t}
	var err error
	if c.source, err = f.ChatTemplate(); err != nil {
		return nil, err
	}
	if t == nil {
		return c, nil
	}
	if id, ok := t.BOS(); ok {
		c.bos, _ = t.Piece(id)
	}
	if ends := t.EOS(); len(ends) > 0 {
		c.eos, _ = t.Piece(ends[0])
	}
	if c.source == "" {
		c.template, _ = template.ForTokens(func(piece string) bool { _, ok := t.ID(piece); return ok })
		return c, nil
	}
	// A template that cannot be read must not keep the model from continuing
	// plain text: the error waits for the first conversation.
	c.template, _ = template.Parse(c.source)
	return c, nil
}

// render returns the prompt as text.
func (c *chatFormat) render(messages []Message, o ChatOptions) (string, error) {
	if c.tok == nil {
		return "", ErrNoTokenizer
	}
	if c.template == nil {
		_, err := template.Parse(c.source)
		return "", err
	}
	in := template.Input{BOS: c.bos, EOS: c.eos, AddGenerationPrompt: !o.NoGenerationPrompt, Now: o.Now, Extra: o.Extra}
	for _, m := range messages {
		in.Messages = append(in.Messages, template.Message{Role: m.Role, Content: m.Content})
	}
	return c.template.Render(in)
}

// Marks that stand around text in which special tokens are not to be seen.
// Both are noncharacters, which no text for exchange contains.
const (
	plainBegin = '\uFDD0'
	plainEnd   = '\uFDD1'
)

// encode returns the prompt as token ids. Special tokens count where the
// template wrote them; those that a user, a tool or a document spells are
// plain text.
func (c *chatFormat) encode(messages []Message) ([]int32, error) {
	guarded := slices.Clone(messages)
	for i := range guarded {
		if guarded[i].Role != "assistant" { // what the model said may hold its own marks, such as </think>
			guarded[i].Content = c.guard(guarded[i].Content)
		}
	}
	text, err := c.render(guarded, ChatOptions{})
	if err != nil {
		return nil, err
	}
	var ids []int32
	if c.source == "" && !strings.HasPrefix(text, c.bos) {
		ids = trimEnd(c.tok.Encode("", token.EncodeOptions{AddSpecial: true}), c.tok.EOS())
	}
	for text != "" {
		begin := strings.IndexRune(text, plainBegin)
		if begin < 0 {
			return c.tok.AppendEncode(ids, text, token.EncodeOptions{AllowSpecial: true}), nil
		}
		ids = c.tok.AppendEncode(ids, text[:begin], token.EncodeOptions{AllowSpecial: true})
		text = text[begin+len(string(plainBegin)):]
		end := strings.IndexRune(text, plainEnd)
		if end < 0 { // the template cut the text
			end = len(text)
			text += string(plainEnd)
		}
		ids = c.tok.AppendEncode(ids, text[:end], token.EncodeOptions{})
		text = text[end+len(string(plainEnd)):]
	}
	return ids, nil
}

// guard puts marks around every special token that a text spells.
func (c *chatFormat) guard(text string) string {
	text = strings.NewReplacer(string(plainBegin), "\uFFFD", string(plainEnd), "\uFFFD").Replace(text)
	allowed := c.tok.Encode(text, token.EncodeOptions{AllowSpecial: true})
	var out strings.Builder
	for _, id := range allowed {
		piece, _ := c.tok.Piece(id)
		if !c.tok.IsSpecial(id) {
			continue
		}
		before, after, found := strings.Cut(text, piece)
		if !found {
			continue
		}
		out.WriteString(before)
		out.WriteRune(plainBegin)
		out.WriteString(piece)
		out.WriteRune(plainEnd)
		text = after
	}
	out.WriteString(text)
	return out.String()
}

// TemplateOptions are the values that a chat template renders.
type TemplateOptions struct {
	// Messages is JSON: a list of messages, or an object with messages, tools
	// and documents.
	Messages           []byte
	BOS, EOS           string
	NoGenerationPrompt bool
	Now                time.Time // zero = now
	Extra              map[string]any
}

// RenderTemplate renders a chat template, given as its source.
func RenderTemplate(source string, o TemplateOptions) (string, error) {
	t, err := template.Parse(source)
	if err != nil {
		return "", err
	}
	return o.render(t)
}

func (o *TemplateOptions) render(t *template.Template) (string, error) {
	in, err := template.DecodeConversation(o.Messages)
	if err != nil {
		return "", err
	}
	if o.NoGenerationPrompt {
		in.AddGenerationPrompt = false
	}
	in.BOS, in.EOS, in.Now = o.BOS, o.EOS, o.Now
	for k, v := range o.Extra {
		if in.Extra == nil {
			in.Extra = map[string]any{}
		}
		in.Extra[k] = v
	}
	return t.Render(in)
}

// RenderModel renders the chat template of a model, with the model's own
// tokens for BOS and EOS, without loading its weights.
func RenderModel(path string, opts Options, o TemplateOptions) (string, error) {
	f, err := exec.Open(opts.fsys(), path)
	if err != nil {
		return "", err
	}
	text, err := renderFiles(f, o)
	return text, errors.Join(err, f.Close())
}

func renderFiles(f *exec.Files, o TemplateOptions) (string, error) {
	t, err := f.Tokenizer()
	if err != nil {
		return "", err
	}
	c, err := newChatFormat(f, t)
	if err != nil {
		return "", err
	}
	o.BOS, o.EOS = c.bos, c.eos
	if c.source != "" {
		return RenderTemplate(c.source, o)
	}
	return o.render(c.template)
}

