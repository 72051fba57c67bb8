package llmrun

import (
	"fmt"

	"github.com/llmrun/llmrun/text/sample"
)

// GenerateOptions configure one generation. The zero value decodes greedily until the model
// generates its end-of-text token or the context is full.
type GenerateOptions struct {
	MaxTokens int      // most tokens to generate; 0 = no limit
	Sampling  Sampling // how the sampler chooses tokens
	Stop      []string // strings that end the generation; the answer does not include them
	IgnoreEOS bool     // continue after the model's end-of-text token
	// ParseSpecial encodes special tokens that are spelled in a prompt, such as <|im_end|>,
	// as special tokens. Without it they are plain text, so that a document cannot imitate
	// the conversation around it. The content of chat messages is always plain text.
	ParseSpecial bool
	// Overflow selects what happens when the session reaches its Limit: OverflowStop (the
	// default, also "") or OverflowSlide.
	Overflow Overflow
	// OnSlide, if set, is called when OverflowSlide drops old tokens, with the number of
	// tokens that remain and that are dropped.
	OnSlide func(remaining, dropped int)
	// Chat configures how Chat and ChatMessages render the conversation.
	Chat ChatOptions
	// LogProbs sets Piece.LogProb. TopLogProbs, at most 100, is the number of tokens in Piece.Top, and
	// implies LogProbs.
	LogProbs    bool
	TopLogProbs int
	// KeepPrompt makes the prompt, with its message, part of the session when its prefill starts. It stays there if
	// that is interrupted or fails, and a later generation continues behind it: Session.Messages then ends with a
	// message of the user, see [AddUserMessage]. A session with a name is saved at the start of a long prompt, so that
	// it also survives the end of the process.
	KeepPrompt bool
	// KeepText, with KeepPrompt, is what the session keeps of the last message of a prompt that is interrupted: a
	// document without the question about it. "" is the whole message.
	KeepText string
	// Schema, Regexp and Grammar hold the answer to a language, one of them at most. Schema is a JSON Schema: the answer is JSON that is valid in
	// it, with properties in the order of the schema, and without properties that it does not declare unless it sets
	// additionalProperties; {"type": "object"} is any object. What of a schema is not supported is an error, with the path of the keyword.
	// Regexp is a regular expression that the whole answer matches, in the syntax of JavaScript, and Grammar a grammar in the notation of
	// llama.cpp, GBNF. The answer ends where the language does. Close to MaxTokens, or the end of the context, only what completes
	// it is chosen; it is cut only if MaxTokens is less than the shortest answer needs. What the model thinks before the answer
	// is free. An answer has no calls of tools then, unless ChatOptions.ToolChoice requires one: that answer is a call, and is not held to
	// them.
	Schema, Regexp, Grammar string
	// OnPrefill, if set, is called after each prefill chunk with the number of prompt tokens
	// that are processed and their total.
	OnPrefill func(done, total int)

	reading  *reading // how the answer to the prompt is read; nil: all of it is text
	answered []int32  // the prompt's last tokens, if they begin the answer
}

// maxTopLogProbs is the greatest GenerateOptions.TopLogProbs.
const maxTopLogProbs = 100

// validate checks the options that the sampler does not check.
func (o *GenerateOptions) validate() error {
	if o.MaxTokens < 0 {
		return fmt.Errorf("%w: MaxTokens is %d; it must not be negative (0 is no limit)", ErrOptions, o.MaxTokens)
	}
	if o.TopLogProbs < 0 || o.TopLogProbs > maxTopLogProbs {
		return fmt.Errorf("%w: TopLogProbs is %d; it must be from 0 to %d", ErrOptions, o.TopLogProbs, maxTopLogProbs)
	}
	if _, err := o.constraint(); err != nil {
		return err
	}
	return o.Overflow.validate()
}

// TokenLogProb is a token and the natural logarithm of its probability.
type TokenLogProb struct {
	ID      int32
	LogProb float32
}

// addLogProbs adds the probabilities that the options ask for to a token.
func (o *GenerateOptions) addLogProbs(p *Piece, logits []float32) {
	if o.LogProbs || o.TopLogProbs > 0 {
		p.LogProb = sample.LogProb(logits, p.ID)
	}
	if o.TopLogProbs == 0 {
		return
	}
	for _, top := range sample.TopLogProbs(nil, logits, o.TopLogProbs) {
		p.Top = append(p.Top, TokenLogProb(top))
	}
}
