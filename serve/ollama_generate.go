package serve

import (
	"context"
	"iter"
	"slices"
	"sort"

	"github.com/llmrun/llmrun"
)

// generateRequest are the fields of a request for a text.
type generateRequest struct {
	*ollamaRequest
	text, suffix, system string
	raw                  bool
	earlier              []int32 // the tokens of the conversation so far
}

func (s *Server) readOllamaGenerate(o *object) *job {
	common, j := s.readOllama(o)
	r := &generateRequest{
		ollamaRequest: common, text: o.text("prompt"), suffix: o.text("suffix"), system: o.text("system"), raw: o.boolean("raw", false),
	}
	r.earlier = o.tokens("context")
	if len(r.earlier) > 0 && (r.raw || r.suffix != "") {
		o.fail("context", "needs the template of the model: it goes with neither raw nor suffix")
	}
	o.refuse("images", "is not supported: the models read text")
	o.refuse("template", "is not supported: the model has its own")
	r.load = r.text == "" && r.suffix == ""
	if r.raw || r.suffix != "" {
		r.prompt = textPrompt(r.text)
		if r.suffix != "" {
			r.prepare = r.fillIn
		}
		return j
	}
	j.named = len(r.earlier) == 0
	r.prompt, r.prepare = chatPrompt(r.messages()), r.goOn
	return j
}

func (r *generateRequest) messages() (all []llmrun.Message) {
	if r.system != "" {
		all = append(all, llmrun.Message{Role: "system", Content: r.system})
	}
	return append(all, llmrun.Message{Role: "user", Content: r.text})
}

// goOn puts the prompt behind the conversation so far, and lets the answer tell the conversation with it.
func (r *generateRequest) goOn(u *use) error {
	if len(r.earlier) > 0 {
		vocabulary := int32(u.engine.Info().Vocab)
		if slices.ContainsFunc(r.earlier, func(id int32) bool { return id < 0 || id >= vocabulary }) {
			return &fieldError{"context", "has a token that the model does not have; it must come from an answer of the same model"}
		}
		next, err := nextTurn(u.engine, r.messages(), r.options.Chat)
		if err != nil {
			return err
		}
		r.prompt = idsPrompt(slices.Concat(r.earlier, next))
	}
	begin := r.prompt
	r.prompt = func(ctx context.Context, s *llmrun.Session, o llmrun.GenerateOptions) iter.Seq2[llmrun.Piece, error] {
		r.context = s.Tokens
		return begin(ctx, s, o)
	}
	return nil
}

// nextTurn returns the tokens of messages that follow an answer, from the mark of its end on. They are what the template puts behind
// an answer that is known, or if that cannot be found, what it makes of the messages alone.
func nextTurn(e *llmrun.Engine, messages []llmrun.Message, o llmrun.ChatOptions) ([]int32, error) {
	const question, answer = "Hi", "Yes"
	earlier := []llmrun.Message{{Role: "user", Content: question}}
	before, err := e.EncodeChat(earlier, o)
	if err != nil {
		return nil, err
	}
	known, err := e.Tokenizer().Encode(answer, llmrun.EncodeOptions{})
	if err != nil {
		return nil, err
	}
	before = append(before, known...)
	earlier = append(earlier, llmrun.Message{Role: "assistant", Content: answer})
	whole, err := e.EncodeChat(slices.Concat(earlier, messages), o)
	if err == nil && len(whole) > len(before) && slices.Equal(whole[:len(before)], before) {
		return whole[len(before):], nil
	}
	alone, err := e.EncodeChat(messages, o)
	if err != nil {
		return nil, err
	}
	begin, err := e.Tokenizer().Encode("", llmrun.EncodeOptions{Special: true})
	if err == nil && len(begin) > 0 && len(alone) > 0 && alone[0] == begin[0] {
		alone = alone[1:] // the conversation has begun
	}
	return alone, err
}

// dropOldest drops the oldest messages of a conversation that is longer than the context, but neither those of the system nor the last one.
// Whether the rest can be answered is left to the generation.
func dropOldest(e *llmrun.Engine, messages []llmrun.Message, o llmrun.ChatOptions) []llmrun.Message {
	const mostPerMessage = 256 // bytes that a template adds, and more
	most, bytes := e.Info().MaxContext, 0
	for _, m := range messages {
		bytes += mostPerMessage + len(m.Content)
	}
	if bytes < most { // a token has at least one byte
		return messages
	}
	return without(messages, sort.Search(len(messages), func(n int) bool {
		ids, err := e.EncodeChat(without(messages, n), o)
		return err == nil && len(ids) < most
	}))
}

// without returns the messages without the oldest n that are neither the system's nor the last one, nor answers to those.
func without(messages []llmrun.Message, n int) (kept []llmrun.Message) {
	for i, m := range messages {
		switch {
		case m.Role == "system" || i == len(messages)-1:
		case n > 0:
			n--
			continue
		case m.Role != "user" && !slices.ContainsFunc(kept, func(m llmrun.Message) bool { return m.Role == "user" }) && len(kept) < i:
			continue
		}
		kept = append(kept, m)
	}
	return kept
}

// fillIn makes the prompt of a text with a gap.
func (r *generateRequest) fillIn(u *use) error {
	text, err := gapPrompt(u.engine.Tokenizer(), r.text, r.suffix)
	r.prompt = textPrompt(text)
	return err
}

// gapMarks are the special tokens with which models were trained to fill a gap: before the text ahead of it, before the text behind it,
// and before what fills it. Each model has those of its family.
var gapMarks = [][3]string{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},    // Qwen, CodeGemma
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},          // StarCoder
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},          // SantaCoder
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},          // DeepSeek
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
	{"▁<PRE>", "▁<SUF>", "▁<MID>"},                            // Code Llama
}

// gapPrompt returns the prompt that asks for what is between two texts.
func gapPrompt(t *llmrun.Tokenizer, before, behind string) (string, error) {
	for _, marks := range gapMarks {
		if t != nil && !slices.ContainsFunc(marks[:], func(m string) bool { return !isToken(t, m) }) {
			return marks[0] + before + marks[1] + behind + marks[2], nil
		}
	}
	return "", &fieldError{"suffix", "needs a model that fills gaps; this one has no tokens for that"}
}

// isToken reports whether a text is one special token.
func isToken(t *llmrun.Tokenizer, text string) bool {
	special, err := t.Encode(text, llmrun.EncodeOptions{ParseSpecial: true})
	if err != nil || len(special) != 1 {
		return false
	}
	plain, err := t.Encode(text, llmrun.EncodeOptions{})
	return err == nil && !slices.Equal(plain, special)
}
