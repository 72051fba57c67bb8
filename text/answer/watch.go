package answer

import (
	"slices"
	"strings"
)

// Watch follows an answer while it is generated, and finds where the arguments of held tools begin; see [Tools.Hold]. A token may have the
// end of what is before the arguments and the beginning of them, so its text is tried before it is taken.
type Watch struct {
	live  *Parser // has read everything
	base  *Parser // had read what is before since, outside of calls
	since strings.Builder
}

// Watch returns what follows an answer from where the parser is, outside of calls. The parser is not used otherwise any more.
func (p *Parser) Watch() *Watch { return &Watch{live: p} }

// Trial is what a text would begin.
type Trial struct {
	Refused   bool   // a call of a held tool, but in another form than that of one
	Name      string // of the held tool whose arguments begin, "" if none do
	Arguments string // of it, as far as they are in the text
}

// Try tells what a text would begin, behind what was taken.
func (w *Watch) Try(text string) (t Trial) {
	before := w.live
	if !strings.Contains(text, "{") && (before.call == nil || before.call.begun) {
		return t
	}
	if before.call != nil {
		before, text = w.base, w.since.String()+text
	}
	p := before.clone()
	defer p.Close()
	n := p.calls
	for _, part := range Join(nil, p.Push(text)) {
		if part.Kind != Call {
			continue
		}
		if n++; n <= w.live.calls || !p.tools.held[part.Name] {
			continue
		}
		t.Refused = t.Refused || t.Name != ""
		t.Name, t.Arguments = part.Name, part.Text
	}
	t.Refused = t.Refused || p.refused
	return t
}

// Take reads a text.
func (w *Watch) Take(text string) {
	if w.live.call == nil {
		w.base = w.live.clone()
		w.since.Reset()
	}
	w.since.WriteString(text)
	w.live.Push(text)
}

// Expects returns the held tool whose arguments must follow, with white space before them or without; "" if something else may follow.
func (w *Watch) Expects() string {
	if w.live.call == nil || w.live.call.begun || !w.Try("\x00").Refused {
		return ""
	}
	return w.Try("{").Name
}

// Close releases a call that was not read to its end.
func (w *Watch) Close() {
	if w != nil {
		w.live.Close()
	}
}

// clone returns a parser that reads on from the same place. There is no running call.
func (p *Parser) clone() *Parser {
	c := *p
	for s := range c.marks {
		c.marks[s] = slices.Clone(c.marks[s])
	}
	c.parts = nil
	return &c
}
