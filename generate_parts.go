package llmrun

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"

	"github.com/llmrun/llmrun/text/answer"
)

// reader splits an answer into its parts. The zero value reads all of it as text, or by its channels.
type reader struct {
	parser *answer.Parser // nil: there are no marks
	early  []Piece        // of what the prompt begins
	kind   Kind           // of the last part
	calls  int
	seed   string // of the ids of calls
	one    bool
	ended  bool // the first of one call has ended

	to string // the tool to which the last message of a channel is
}

// begin begins an answer.
func (r *reader) begin(how *reading) {
	if how == nil {
		return
	}
	r.seed, r.one = how.seed, how.one
	if r.parser = how.format.NewParser(how.end, how.tools); r.parser != nil && how.begun != "" {
		r.early = r.pieces(nil, r.parser.Push(how.begun))
	}
}

// read splits the text of a token into its parts. The answer ends behind a call if it may have only one.
func (r *reader) read(next *sampled) {
	if r.parser == nil {
		r.readChannel(&next.Piece)
		return
	}
	r.distribute(next, r.parser.Push(next.Text))
	if r.one && r.ended {
		next.stopped = true
	}
}

// finish adds what was held back. ended says that the model has ended the answer.
func (r *reader) finish(last *sampled, ended bool) {
	if r.parser == nil {
		r.readChannel(&last.Piece)
		last.CallEnds = ended && r.to != ""
		return
	}
	parts := answer.Join(nil, r.parser.Push(last.Text))
	if parts = answer.Join(parts, r.parser.Finish()); r.one && r.ended {
		parts = nil // what follows the only call
	}
	r.distribute(last, parts)
}

// distribute makes a piece of each part, of which the first has the token.
func (r *reader) distribute(next *sampled, parts []answer.Part) {
	if len(r.early) == 0 && len(parts) == 1 && parts[0].Kind == answer.Text { // as most tokens are
		r.kind, next.Kind, next.Text = KindAnswer, KindAnswer, parts[0].Text
		return
	}
	all := r.pieces(r.early, parts)
	r.early = nil
	if len(parts) == 0 && r.thinks() { // a mark, or white space behind it
		r.kind = KindThinking
	}
	next.Text, next.Kind = "", r.kind
	if len(all) == 0 {
		return
	}
	first := all[0]
	next.Text, next.Kind, next.Call, next.CallEnds = first.Text, first.Kind, first.Call, first.CallEnds
	next.more = all[1:]
}

// pieces appends the pieces of parts. Parts of a call that follow each other are one piece.
func (r *reader) pieces(all []Piece, parts []answer.Part) []Piece {
	for i := range parts {
		p := &parts[i]
		if r.one && r.ended {
			break
		}
		kind := [...]Kind{answer.Text: KindAnswer, answer.Thinking: KindThinking, answer.Call: KindToolCall}[p.Kind]
		if n := len(all); n > 0 && all[n-1].Kind == kind && p.Name == "" && !all[n-1].CallEnds {
			all[n-1].Text += p.Text
		} else {
			all = append(all, Piece{ID: noToken, Kind: kind, Text: p.Text})
		}
		last := &all[len(all)-1]
		if p.Name != "" {
			last.Call = r.call(p.Name)
		}
		if p.Ends {
			last.CallEnds, r.ended = true, true
		}
		r.kind = kind
	}
	return all
}

// call returns the next call.
func (r *reader) call(name string) *ToolCall {
	r.calls++
	return &ToolCall{ID: newCallID(fmt.Sprint(r.seed, " ", r.calls, " ", name)), Name: name}
}

// readChannel sets what a piece belongs to by its channel.
func (r *reader) readChannel(p *Piece) {
	switch {
	case p.Recipient != "":
		p.Kind = KindToolCall
		if r.to != p.Recipient && p.Text != "" {
			r.to = p.Recipient
			p.Call = r.call(strings.TrimPrefix(p.Recipient, "functions."))
		}
		return
	case p.Channel != "" && p.Channel != ChannelFinal:
		p.Kind = KindThinking
	}
	r.to = ""
}

// endChannel sets what a piece belongs to whose token is a mark of channels. A mark ends the call before it.
func (r *reader) endChannel(p *Piece) {
	called := r.to != ""
	r.readChannel(p)
	p.CallEnds, r.to = called || p.Call != nil, ""
}

// thinks reports whether the model is thinking, rather than writing what the user reads.
func (r *reader) thinks() bool { return r.parser != nil && r.parser.Thinks() }

// close releases what reads the answer.
func (r *reader) close() { r.parser.Close() }

// callIDLength is the length of ids of calls, which all templates accept.
const callIDLength = 9

// newCallID returns the id of a call: letters and digits that follow from the seed, so that an answer can be repeated.
func newCallID(seed string) string {
	sum := sha256.Sum256([]byte(seed))
	text := new(big.Int).SetBytes(sum[:]).Text(62)
	return text[len(text)-callIDLength:]
}
