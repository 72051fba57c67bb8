package llmrun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// templateRoom is the number of tokens that a chat template adds to a text.
	templateRoom = 64
	// answerRoom is the number of tokens of a chosen context beside those of the prompt: an answer of
	// 256 tokens, and those of a chat template.
	answerRoom = 256 + templateRoom
)

// countedPart is the length of the parts of a prompt whose tokens are counted at a time.
const countedPart = 4 << 10

// partTokens is more than the number of tokens by which counting a part, and the shorter one up to its
// last white space, exceeds its number of tokens in the whole text: a prefix, and the word that two parts share.
const partTokens = 16

// tokenText is about the length of a token's text, for prompts of which only the tokens are known.
const tokenText = 4

// promptTokens is the number of tokens of a prompt, once they are counted, and of a planned answer.
type promptTokens struct {
	tokens, answer int
}

// expect makes the plan one for the prompt of how, if it has one: the context has room for it and for
// the answer, and the budget for its conversion.
func (o *Options) expect(how *PlanOptions) {
	if how.Prompt <= 0 {
		return
	}
	o.promptTokens.answer = how.Answer
	if how.Overflow != OverflowSlide { // then the context must hold it
		o.Memory.PromptTokens = max(o.Memory.PromptTokens, how.Prompt)
		o.Memory.AnswerTokens = max(o.Memory.AnswerTokens, how.Answer)
	}
	if o.Memory.Prompt == 0 && !how.IDs {
		o.Memory.Prompt = PromptMemory(tokenText * int64(how.Prompt))
	}
}

// answerRoom returns the number of tokens for which a chosen context has room beside the prompt.
func (o *Options) answerRoom() int {
	return max(answerRoom, o.promptTokens.answer)
}

// conversation returns the number of tokens of a prompt and its answer, as far as it is known. A context
// that slides has none. It has room for a chat template, if the model has one, also around token ids: a plan for a
// number of tokens may be one for texts, and a run of as many ids is refused where the plan is.
func (o *Options) conversation(f *modelfile.Files, prompt int) int {
	switch answer := o.Memory.AnswerTokens; {
	case prompt == 0 || answer == 0:
		return prompt
	default:
		if template, err := f.ChatTemplate(); err == nil && template == "" {
			return prompt + answer
		}
		return prompt + templateRoom + answer
	}
}

// describeConversation describes a prompt with so many tokens and its answer in a context, for errors. The
// tokens of texts are counted without a chat template.
func (o *Options) describeConversation(prompt, context int) string {
	about := ""
	if len(o.Memory.PromptTexts) > 0 {
		about = "about "
	}
	text := fmt.Sprintf("a prompt of %s%d tokens", about, prompt)
	switch answer := o.Memory.AnswerTokens; {
	case answer > context:
		text += fmt.Sprintf(" with an answer that may fill the context of %d (limit it with -n)", context)
	case answer > 0:
		text += fmt.Sprintf(" with an answer of up to %d", answer)
	}
	return text
}

// holdsPrompt returns how many tokens of its prompt a session with the plan's context drops, or the
// session's error for the prompt.
func (o *Options) holdsPrompt(a *admission, how *PlanOptions) (dropped int, err error) {
	limit := a.plan.Context
	if o.Context <= 0 && o.contextGrows(a) {
		limit = a.need.ContextMax
	}
	return fitTokens(how.Prompt, limit, how.Overflow)
}

// admitPromptTokens decides again, about a longer context, if the options name none and the plan
// (or the refusal err) has chosen one without room for the prompt.
func (o *Options) admitPromptTokens(ctx context.Context, f *modelfile.Files, perTensor *exec.W8A8, a admission, err error) (admission, error) {
	if o.Context > 0 || err != nil && !errors.Is(err, ErrBudget) || o.contextGrows(&a) {
		return a, err
	}
	var refused *tiering.MinimumError
	chosen := 0
	switch {
	case err == nil:
		chosen = a.plan.Context
	case errors.As(err, &refused):
		chosen = refused.Context
	}
	tokens := o.prompt(f, chosen, a.need.ContextMax)
	room := o.answerRoom()
	if tokens+room <= chosen || tokens >= a.need.ContextMax {
		return a, err
	}
	fixed := *o
	fixed.Context = min(tokens+room, a.need.ContextMax)
	longer, failed := fixed.admitContext(ctx, f, perTensor)
	switch {
	case failed == nil:
		return longer, nil
	case err == nil && tokens < chosen: // the answer will be shorter
		return a, nil
	case errors.As(failed, &refused):
		refused.ContextFits = 0 // it would not hold the prompt
		failed = fmt.Errorf("the prompt has about %d tokens (%s): %w", tokens, o.lessContext(), failed)
	}
	return longer, failed
}

// exceedsContext returns ErrContextFull for a prompt that a larger budget would not help: the refusal is
// one of the budget, and the prompt has more tokens than the model's context or the requested one. Tokens
// of texts are counted in parts, so the texts must have a few more.
func (o *Options) exceedsContext(f *modelfile.Files, refusal error) error {
	if !errors.Is(refusal, ErrBudget) {
		return nil
	}
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	limit := spec.Context
	if o.Context > 0 {
		limit = min(limit, o.Context)
	}
	bytes := 0
	for _, text := range o.Memory.PromptTexts {
		bytes += len(text)
	}
	exceeds := o.Memory.PromptTokens > limit
	if sure := limit + partTokens*(bytes/countedPart+len(o.Memory.PromptTexts)) + 1; !exceeds && bytes >= sure {
		if t, err := f.Tokenizer(); err == nil {
			n, err := countTokens(t, o.Memory.PromptTexts, sure)
			exceeds = err == nil && n >= sure
		}
	}
	if !exceeds {
		return nil
	}
	full := &ContextFullError{Tokens: max(o.Memory.PromptTokens, limit+1), Limit: limit, Prompt: true, AtLeast: len(o.Memory.PromptTexts) > 0}
	return fmt.Errorf("%w; use a shorter prompt, summarize it (llmrun summarize), or drop its oldest tokens (--overflow slide --allow-truncate)", full)
}

// lessContext says what makes a long prompt take less memory.
func (o *Options) lessContext() string {
	text := "--overflow slide --allow-truncate drops the oldest tokens"
	if o.sessionDir() == "" && !o.usesDevice() {
		text = "--cache-dir moves older keys and values to flash; " + text
	}
	return text
}

// contextGrows reports whether sessions may exceed the planned context.
func (o *Options) contextGrows(a *admission) bool {
	return o.Memory.RAM <= 0 && a.plan != nil && a.plan.Resident()
}

// prompt returns the number of tokens of the prompt, or a bound of it that is at most chosen, or at
// least most. If the ledger has no room for the tokenizer, it returns a bound.
func (o *Options) prompt(f *modelfile.Files, chosen, most int) int {
	m := &o.Memory
	bound := m.PromptTokens
	for _, text := range m.PromptTexts {
		bound += len(text)
	}
	if bound+o.answerRoom() <= chosen || m.PromptTokens >= most {
		return bound
	}
	if o.promptTokens.tokens == 0 {
		o.promptTokens.tokens = bound
		if t, err := f.Tokenizer(); err == nil {
			n, err := countTokens(t, m.PromptTexts, most)
			if err != nil {
				n = most // encoding the prompt will report it
			}
			o.promptTokens.tokens = min(bound, m.PromptTokens+n)
		}
	}
	return o.promptTokens.tokens
}

// countTokens counts the tokens of texts, up to about most. It encodes a small part at a time, so a
// word that two parts share counts more than once.
func countTokens(t *token.Tokenizer, texts []string, most int) (n int, err error) {
	for _, text := range texts {
		for text != "" && n < most {
			part := text[:cutAt(text)]
			ids, err := t.Encode(part, token.EncodeOptions{})
			if err != nil {
				return 0, err
			}
			n, text = n+len(ids), text[len(part):]
		}
	}
	return n, nil
}

// cutAt returns the length of the first part of a text: it ends before white space, if it has any.
func cutAt(text string) int {
	if len(text) <= countedPart {
		return len(text)
	}
	end := countedPart
	for !utf8.RuneStart(text[end]) && end > 1 {
		end--
	}
	if space := strings.LastIndexAny(text[:end], " \n\t\r"); space > 0 {
		return space
	}
	return end
}
