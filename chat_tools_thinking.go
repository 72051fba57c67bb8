package llmrun

import (
	"slices"
	"strings"

	"github.com/llmrun/llmrun/text/channel"
	"github.com/llmrun/llmrun/text/jinja"
)

// A model that thinks does so before a call that is required, too: the prompt begins its thoughts, and where they end the generation
// goes on with the beginning of the call, whatever the model would have written there.

// These begin and end the thoughts of an answer with channels.
const (
	analysisBegin = "<|channel|>analysis<|message|>"
	analysisEnd   = "<|end|>"
	messageBegin  = "<|start|>assistant"
	finalBegin    = "<|channel|>final<|message|>"
)

// requiredCall is a required call behind thoughts.
type requiredCall struct {
	end  []int32 // the mark that ends the thoughts
	call []int32 // what the call begins with, behind the mark; nil: an answer follows, for which only the mark is certain
	// header is the mark that ends the header of a message, if the answer has channels and no call is required. end then begins the message that
	// the user reads.
	header []int32
}

// thinksFirst reports whether the model thinks before a required call: it is asked to, or the prompt begins thoughts, or the model
// decides and its template does not leave them out. in is what the prompt was rendered from.
func (c *chatFormat) thinksFirst(o *ChatOptions, in jinja.Input, prompt string) bool {
	switch {
	case o.Thinking == ThinkOff:
		return false
	case c.channels != nil:
		return true
	case !c.answers.Thinks() || c.answers.Closed(prompt):
		return false
	case o.Thinking != "" || c.answers.Opened(prompt) != "":
		return true
	}
	off := c.probeThinking()[ThinkOff]
	if len(off.set) == 0 {
		return true
	}
	in.Extra = off.over(in.Extra)
	without, err := renderTools(c.template, in)
	return err != nil || without != prompt
}

// openThoughts returns what begins thoughts behind a prompt, "" if it has begun them.
func (c *chatFormat) openThoughts(prompt string) string {
	if c.channels != nil {
		return analysisBegin
	}
	if c.answers.Opened(prompt) != "" {
		return ""
	}
	open, _ := c.answers.Thoughts()
	return open + "\n"
}

// callBehind returns what follows the thoughts that a prompt begins, if a call is required: the mark that ends them, and what is behind it up
// to what the model writes of the call. Both are "" if the prompt begins no thoughts.
func (c *chatFormat) callBehind(prompt string, o *ChatOptions) (end, call string, err error) {
	if !o.requires() || o.NoGenerationPrompt {
		return "", "", nil
	}
	end, call = c.answers.Opened(prompt), "\n\n"
	if c.channels != nil {
		end, call = "", messageBegin
		if strings.HasSuffix(prompt, analysisBegin) {
			end = analysisEnd
		}
	}
	if end == "" {
		return "", "", nil
	}
	begun, err := c.requiredBegin(o)
	return end, call + begun, err
}

// encodeBehind encodes what callBehind returns; nil if that is nothing.
func (c *chatFormat) encodeBehind(prompt string, o *ChatOptions, room *promptRoom) (*requiredCall, error) {
	end, call, err := c.callBehind(prompt, o)
	var header []int32
	switch {
	case err != nil || end != "" || o.requires():
	case c.channels != nil && !o.NoGenerationPrompt:
		end = analysisEnd + messageBegin + finalBegin
		header, err = c.appendMarked(nil, channel.Message, room)
	case c.channels == nil:
		if end = c.answers.Opened(prompt); end == "" {
			_, end = c.answers.Thoughts()
		}
	}
	if err != nil || end == "" {
		return nil, err
	}
	mark, err := c.appendMarked(nil, end, room)
	if err != nil || call == "" {
		return &requiredCall{end: mark, header: header}, err
	}
	// Tokenizers treat the beginning of a text otherwise, so the call is encoded behind the mark.
	all, err := c.appendMarked(nil, end+call, room)
	if err == nil && (len(all) < len(mark) || !slices.Equal(all[:len(mark)], mark)) { // they have a token in common
		all, err = c.appendMarked(slices.Clip(mark), call, room)
	}
	if err != nil {
		return nil, err
	}
	return &requiredCall{end: mark, call: all[len(mark):]}, nil
}

// calling is a required call behind thoughts, while the answer is generated. The zero value is none.
type calling struct {
	*requiredCall
	begun bool
	rest  []int32 // of the beginning of the call, if begun
}

// waits reports whether the call has not begun, or its beginning is not complete.
func (c *calling) waits() bool {
	return c.requiredCall != nil && (!c.begun && c.call != nil || len(c.rest) > 0)
}

// waitsForAnswer reports whether an answer that is held to a language has not begun, because the model thinks.
func (g *generation) waitsForAnswer() bool {
	c := &g.calling
	if g.held == nil || g.decided != nil || c.requiredCall == nil || c.call != nil || c.begun {
		return false
	}
	if c.header == nil {
		return g.reader.thinks()
	}
	return !g.channel.Shows() || !g.channel.Answers() && g.channel.Recipient() == ""
}

// thinksOn reports whether the thoughts before a required call go on.
func (g *generation) thinksOn() bool {
	if g.reader.parser == nil { // channels
		return g.channel.Shows()
	}
	return g.reader.thinks()
}

// mustFollow returns tokens that must follow, because a required call begins behind thoughts. Thoughts are cut off where the tokens that are
// left would not be enough for the call, or for an answer that is held to a language.
func (g *generation) mustFollow() []int32 {
	c := &g.calling
	switch {
	case c.requiredCall == nil:
		return nil
	case c.begun:
		return c.rest
	case c.call == nil && !g.waitsForAnswer():
		return nil
	case c.call != nil && !g.thinksOn():
		return c.call
	}
	needs := len(c.end) + len(c.call) + 1
	if c.header != nil { // what follows is longer in a header, which a token may begin
		needs += len(c.header) + 1
	}
	if g.held != nil {
		needs += g.held.cursor.Needs()
	}
	if left := g.tokensLeft(); left > 0 && left <= needs {
		return g.endThoughts()
	}
	return nil
}

// endThoughts returns what ends thoughts where they are, and begins what follows them.
func (g *generation) endThoughts() []int32 {
	c := &g.calling
	switch {
	case c.header == nil || g.channel.Shows():
		return c.whole()
	case !g.channel.InHeader():
		return c.end[1:] // the message has ended
	case g.channel.WouldAnswer():
		return c.header
	}
	return slices.Concat(c.header, c.end)
}

// whole returns the mark and the beginning of the call.
func (c *requiredCall) whole() []int32 { return slices.Concat(c.end, c.call) }

// follow notes that the first of the tokens was taken that must follow.
func (c *calling) follow(must []int32) {
	if len(must) > 0 {
		c.begun, c.rest = true, must[1:]
	}
}
