package llmrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/answer"
	"github.com/llmrun/llmrun/text/channel"
	"github.com/llmrun/llmrun/text/constrain"
	"github.com/llmrun/llmrun/text/jinja"
	"github.com/llmrun/llmrun/text/token"
)

// ChatOptions configure how messages are rendered. The zero value suits conversations.
type ChatOptions struct {
	NoGenerationPrompt bool           // do not start the assistant's next turn
	Now                time.Time      // the current date for templates that show it; zero = now
	Extra              map[string]any // further variables of the template
	// Tools are what the model may call. If the template has no tools, the message of the system lists them and shows how a call is
	// written, and results are messages of the user.
	Tools []Tool
	// ToolChoice is ToolsAuto (also ""), ToolsNone or ToolsRequired. ToolName is the tool that ToolsRequired
	// requires, "" for any. The answer then begins with the call, or has it behind what the model thinks: a model that thinks does so unless
	// Thinking is ThinkOff, and its thoughts end where the call needs the tokens that GenerateOptions.MaxTokens leaves. If the
	// model writes arguments as JSON, they are valid in the parameters of the tool, or any object if that schema is not supported; see
	// GenerateOptions.Schema. Of the calls that the model decides upon, those of tools with Tool.Strict are held to their parameters, and
	// the text around them is free.
	ToolChoice, ToolName string
	// OneToolCall ends the answer behind its first call.
	OneToolCall bool
	// Thinking is whether the model thinks before it answers: one of the levels of Engine.ThinkingLevels, or "" for
	// the template's default.
	Thinking string

	held    *requiredCalls // the calls that the answer is held to
	decided *requiredCalls // the calls of strict tools, if the model decides upon them
}

// RenderChat returns the prompt that the model's chat template renders, as text. The text
// does not distinguish special tokens of the template from those spelled in a message; use
// EncodeChat to count tokens or to generate.
func (e *Engine) RenderChat(messages []Message, o ChatOptions) (string, error) {
	room, err := e.reservePrompt(o.texts(messages)...)
	defer room.release()
	if err != nil {
		return "", err
	}
	if err := e.chat.holdCalls(&o); err != nil {
		return "", err
	}
	text, begun, err := e.chat.prompt(messages, o, room)
	return text + begun, err
}

// EncodeChat returns the prompt that Chat prefills, as token ids. The template's special
// tokens are encoded as such; those spelled in system and user messages are plain text.
func (e *Engine) EncodeChat(messages []Message, o ChatOptions) ([]int32, error) {
	ids, _, err := e.encodeChat(messages, o)
	return ids, err
}

// encodeChat is EncodeChat, and returns how the answer is read.
func (e *Engine) encodeChat(messages []Message, o ChatOptions) ([]int32, *reading, error) {
	room, err := e.reservePrompt(o.texts(messages)...)
	defer room.release()
	if err != nil {
		return nil, nil, err
	}
	return e.chat.encodeAnswered(messages, o, room)
}

// Chat adds a user's message to the session's conversation and generates the answer. The
// answer, as far as the caller received it, becomes part of the conversation. Chat prefills
// only what the session does not contain yet. If a turn fails before the first token of the
// answer, or the answer has no token, the conversation does not change, unless
// GenerateOptions.KeepPrompt keeps the message. See [AddUserMessage] for the message after that.
func (s *Session) Chat(ctx context.Context, user string, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.chat(ctx, func() []Message { return AddUserMessage(s.Messages(), user) }, o)
}

// AddUserMessage returns a conversation with another message of the user. A last message without an answer,
// which GenerateOptions.KeepPrompt has kept, becomes part of it, because templates expect that roles alternate:
// the text follows it after an empty line, or replaces it if it begins with it, as a prompt that is repeated.
func AddUserMessage(messages []Message, text string) []Message {
	last := len(messages) - 1
	if last < 0 || messages[last].Role != "user" {
		return append(slices.Clip(messages), Message{Role: "user", Content: text})
	}
	if before := messages[last].Content; !strings.HasPrefix(text, before) {
		text = before + "\n\n" + text
	}
	return append(slices.Clip(messages[:last]), Message{Role: "user", Content: text})
}

// ChatMessages replaces the session's conversation by messages and generates the assistant's
// next message. An answer without a token replaces nothing, so that a session keeps the answer that it has.
func (s *Session) ChatMessages(ctx context.Context, messages []Message, o GenerateOptions) iter.Seq2[Piece, error] {
	return s.chat(ctx, func() []Message { return cloneMessages(messages) }, o)
}

// chat generates the answer to the result of messages, which it calls once the session is
// claimed.
func (s *Session) chat(ctx context.Context, messages func() []Message, o GenerateOptions) iter.Seq2[Piece, error] {
	t := &turn{}
	return s.run(ctx, o, func(o *GenerateOptions) (ids []int32, err error) {
		t.messages = messages()
		ids, o.reading, err = s.engine.encodeChat(t.messages, o.Chat)
		return ids, err
	}, t)
}

// chatFormat renders conversations with a chat template.
type chatFormat struct {
	source   string          // the model's own template; "" = a built-in template is used
	template *jinja.Template // nil if the template is unusable; invalid is the reason
	invalid  error
	tok      *token.Tokenizer // nil without a tokenizer
	bos, eos string           // the text of these tokens, for templates
	channels *channel.Format  // nil if answers have no channels
	answers  *answer.Format   // nil without a template
	probed   templateProbe
	held     heldCalls

	// compiler returns a compiler for the schemas of tools, and what releases its memory; nil without an engine.
	compiler func() (constrain.Compiler, func())
}

const (
	// templateCost bounds the memory of a template for each byte of its source, up to
	// templateMost: the parser refuses a source with more tokens.
	templateCost = 100
	templateMost = 1 << 18
)

// templateHeap bounds the memory of a parsed template.
func templateHeap(source string) int64 { return templateCost * min(int64(len(source)), templateMost) }

func newChatFormat(f *modelfile.Files, t *token.Tokenizer) (*chatFormat, error) {
	c := &chatFormat{tok: t, invalid: fmt.Errorf("%w: %s", ErrNoTokenizer, f.Path)}
	var err error
	if c.source, err = f.ChatTemplate(); err != nil || t == nil {
		return c, err
	}
	c.channels = channel.New(t.ID, t.TokenBytes)
	if id, ok := t.BOS(); ok {
		c.bos, _ = t.Piece(id)
	}
	if id, ok := t.EndOfText(); ok {
		c.eos, _ = t.Piece(id)
	}
	c.answers = answer.New(c.source, func(mark string) bool { _, ok := t.ID(mark); return ok })
	if c.source == "" {
		c.template, _ = jinja.ForTokens(func(piece string) bool { _, ok := t.ID(piece); return ok })
		return c, nil
	}
	if err := vfs.Reserve(f.FS, f.Path, templateHeap(c.source)); err != nil {
		return nil, err
	}
	defer vfs.Release(f.FS, templateHeap(c.source)) // the plan counts it by itself
	// An unusable template must not prevent plain generation, so the error is reported only
	// by methods that need the template.
	if c.template, err = jinja.Parse(c.source); err != nil {
		c.invalid = fmt.Errorf("the chat template of %s: %w", f.Path, err)
	}
	return c, nil
}

// TemplateOptions are the inputs of RenderTemplate and RenderModel.
type TemplateOptions struct {
	// Messages is JSON: a list of messages, or an object with messages, tools and documents.
	Messages           []byte
	BOS, EOS           string    // bos_token and eos_token; RenderModel uses the model's own
	NoGenerationPrompt bool      // do not start the assistant's next turn
	Now                time.Time // the current date for templates that show it; zero = now
	// Extra are further variables of the template. A json.RawMessage is what its JSON says, with whole numbers as
	// such and the fields of objects in their order.
	Extra map[string]any
}

// RenderTemplate renders the chat template source.
func RenderTemplate(source string, o TemplateOptions) (string, error) {
	t, err := jinja.Parse(source)
	if err != nil {
		return "", err
	}
	return o.render(t)
}

func (o *TemplateOptions) render(t *jinja.Template) (string, error) {
	in, err := jinja.DecodeConversation(o.Messages)
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
		if raw, isJSON := v.(json.RawMessage); isJSON {
			if v, err = jinja.DecodeJSON(raw); err != nil {
				return "", fmt.Errorf("%w: the variable %s: %w", ErrOptions, k, err)
			}
		}
		in.Extra[k] = v
	}
	return renderTools(t, in)
}

// RenderModel renders the chat template of a model, with the model's own BOS and EOS, without
// loading its weights.
func RenderModel(path string, opts Options, o TemplateOptions) (string, error) {
	f, err := modelfile.Open(opts.fsys(), path)
	if err != nil {
		return "", err
	}
	text, err := renderFiles(f, o)
	return text, errors.Join(err, f.Close())
}

func renderFiles(f *modelfile.Files, o TemplateOptions) (string, error) {
	t, err := f.Tokenizer()
	if err != nil {
		return "", err
	}
	c, err := newChatFormat(f, t)
	if err != nil {
		return "", err
	}
	if c.template == nil {
		return "", c.invalid
	}
	o.BOS, o.EOS = c.bos, c.eos
	return o.render(c.template)
}
