package answer

import (
	"slices"
	"strings"
)

// Kind is what a part of an answer is.
type Kind uint8

// The kinds of parts.
const (
	Text Kind = iota
	Thinking
	Call
)

// Part is a part of an answer. Parts of a kind that follow each other belong together.
type Part struct {
	Kind Kind
	Text string // of a call: more of its arguments
	Name string // begins a call of the tool with this name
	Ends bool   // the call is complete
}

// Parser splits an answer into its parts. A nil Parser is not usable; an answer without marks needs none.
type Parser struct {
	format *Format
	tools  *Tools // nil: calls are text

	state state
	marks [states][]mark
	first [states][256]bool // bytes that begin a mark
	wraps bool              // the answer has a mark that ends it
	bare  bool              // nothing but thoughts so far
	drops bool              // white space that follows is no text
	held  string            // may be the beginning of a mark, with the white space before it

	call   *callReader // nil outside of calls
	spaces string      // white space before the call
	calls  int
	// running is the tool of the last call.
	running string
	refused bool // a call of a held tool was not in the form of one
	parts   []Part
}

type state uint8

const (
	begins   state = iota // of the answer, or behind thoughts and calls
	inText                // of the answer
	thinking              // in thoughts
	states
)

// mark is a text that divides an answer.
type mark struct {
	text string
	does action
	end  string   // of thoughts or the answer
	call *wrapper // nil for other marks
}

type action uint8

const (
	opensThoughts action = iota
	endsThoughts
	opensAnswer
	endsAnswer
	opensCall
	ignores
)

// NewParser returns a parser for one answer. end is the mark that ends the thoughts which the prompt has begun, "" for none. tools are
// those that the prompt offers; nil: what looks like a call is text. A nil parser is returned if an answer cannot have marks.
func (f *Format) NewParser(end string, tools *Tools) *Parser {
	if len(f.thoughts) == 0 && len(f.answers) == 0 && tools == nil {
		return nil
	}
	p := &Parser{format: f, tools: tools, bare: true}
	for _, t := range f.thoughts {
		p.add(begins, mark{text: t.open, does: opensThoughts, end: t.end})
	}
	for _, a := range f.answers {
		p.add(begins, mark{text: a.open, does: opensAnswer, end: a.end})
		if a.end == "" && tools != nil { // calls may come before it
			p.add(inText, mark{text: a.open, does: opensAnswer})
		}
	}
	if tools != nil {
		for i := range f.calls {
			w := &f.calls[i]
			p.add(begins, mark{text: w.open, does: opensCall, call: w})
			if !w.bare {
				p.add(inText, mark{text: w.open, does: opensCall, call: w})
			}
		}
		for _, text := range f.ignored {
			p.add(begins, mark{text: text, does: ignores})
			p.add(inText, mark{text: text, does: ignores})
		}
	}
	if end != "" {
		p.think(end)
	}
	return p
}

func (p *Parser) add(s state, m mark) {
	p.marks[s] = append(p.marks[s], m)
	p.first[s][m.text[0]] = true
}

// think begins thoughts.
func (p *Parser) think(end string) {
	p.state, p.drops = thinking, true
	p.marks[thinking], p.first[thinking] = p.marks[thinking][:0], [256]bool{}
	p.add(thinking, mark{text: end, does: endsThoughts})
}

// Push takes more of the answer and returns the parts that it completes, which are valid until the next call.
func (p *Parser) Push(text string) []Part {
	p.parts = p.parts[:0]
	p.read(text, false)
	return p.parts
}

// Finish ends the answer and returns what was held back.
func (p *Parser) Finish() []Part {
	p.parts = p.parts[:0]
	p.read("", true)
	return p.parts
}

// Close releases a call that was not read to its end. Finish does so too.
func (p *Parser) Close() {
	if p != nil && p.call != nil {
		p.call.stop()
		p.call = nil
	}
}

// Calls returns the number of calls so far.
func (p *Parser) Calls() int { return p.calls }

// Thinks reports whether what follows is thoughts, until a mark ends them.
func (p *Parser) Thinks() bool { return p.state == thinking }

// InCall reports whether a call has begun and not ended.
func (p *Parser) InCall() bool { return p.call != nil && p.call.begun }

// read reads text behind what is held back.
func (p *Parser) read(text string, final bool) {
	for {
		if p.call != nil {
			var done bool
			if text, done = p.feed(text, final); !done {
				return
			}
			continue
		}
		if p.held != "" {
			text, p.held = p.held+text, ""
		}
		at, m := p.find(text, final)
		before := at
		if m != nil || !final {
			before = p.trim(text[:at], m)
		}
		p.emit(text[:before])
		if m == nil {
			p.held = text[before:]
			if final {
				p.emit(p.held)
				p.held = ""
			}
			return
		}
		p.spaces, text = text[before:at], text[at+len(m.text):]
		p.cross(m)
	}
}

// find returns where the first mark begins, or the text that may be the beginning of one.
func (p *Parser) find(text string, final bool) (at int, found *mark) {
	marks, first := p.marks[p.state], &p.first[p.state]
	if len(marks) == 0 {
		return len(text), nil
	}
	for i := range len(text) {
		if !first[text[i]] {
			if p.state == begins && !isSpace(text[i]) { // marks of the beginning are text from here on
				marks, first = p.marks[inText], &p.first[inText]
				if len(marks) == 0 {
					return len(text), nil
				}
				if !first[text[i]] {
					continue
				}
			} else {
				continue
			}
		}
		rest := text[i:]
		for j := range marks {
			m := &marks[j]
			switch {
			case m.call != nil && m.call.bare && !p.bare:
			case strings.HasPrefix(rest, m.text):
				return i, m
			case !final && strings.HasPrefix(m.text, rest):
				return i, nil
			}
		}
		if p.state == begins {
			marks, first = p.marks[inText], &p.first[inText]
			if len(marks) == 0 {
				return len(text), nil
			}
		}
	}
	return len(text), nil
}

// trim returns where the white space at the end of a text begins, if a mark may follow it.
func (p *Parser) trim(text string, m *mark) int {
	if m == nil && len(p.marks[p.state]) == 0 {
		return len(text)
	}
	if m == nil && p.state == begins && len(p.marks[inText]) == 0 && strings.TrimLeft(text, space) != "" {
		return len(text)
	}
	from := len(text)
	for from > 0 && len(text)-from < maxSpace && isSpace(text[from-1]) {
		from--
	}
	return from
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\r' || b == '\t' }

// emit returns text of the running part.
func (p *Parser) emit(text string) {
	if p.drops {
		text = strings.TrimLeft(text, space)
	}
	if text == "" {
		return
	}
	p.drops = false
	kind := Text
	if p.state == thinking {
		kind = Thinking
	} else if p.state == begins && strings.TrimLeft(text, space) != "" {
		p.state, p.bare = inText, false
	}
	p.parts = append(p.parts, Part{Kind: kind, Text: text})
}

// cross passes a mark.
func (p *Parser) cross(m *mark) {
	switch m.does {
	case opensThoughts:
		p.think(m.end)
	case endsThoughts:
		p.state, p.drops = begins, true
	case opensAnswer:
		p.state, p.drops, p.bare = inText, true, false
		if !p.wraps && m.end != "" {
			p.wraps = true
			p.add(inText, mark{text: m.end, does: endsAnswer})
			p.add(begins, mark{text: m.end, does: endsAnswer})
		}
	case endsAnswer, ignores:
	case opensCall:
		p.call = newCallReader(p, m.call)
	}
}

// feed reads more of a call. When the call has ended, it returns what follows.
func (p *Parser) feed(text string, final bool) (rest string, done bool) {
	c := p.call
	if c.more(text, final) {
		return "", false
	}
	p.call = nil
	rest = string(c.in[c.from:])
	if c.calls > 0 {
		p.state, p.bare, p.drops = begins, false, true
		return rest, true
	}
	if p.drops {
		p.spaces, p.drops = "", false
	}
	p.emitText(p.spaces + c.wrapper.open) // no call: the mark is text
	if c.wrapper.keep {
		rest = rest[len(c.wrapper.open):]
	}
	return rest, true
}

// emitText returns text of the answer that is no mark.
func (p *Parser) emitText(text string) {
	p.parts = append(p.parts, Part{Kind: Text, Text: text})
	p.state, p.bare = inText, false
}

// begin begins a call.
func (p *Parser) begin(name string) bool {
	if p.calls == maxCalls {
		return false
	}
	p.calls++
	p.running = name
	p.parts = append(p.parts, Part{Kind: Call, Name: name})
	return true
}

// Join appends parts to others, of which the last may go on.
func Join(parts, more []Part) []Part {
	for _, m := range more {
		if n := len(parts); n > 0 && m.Name == "" && parts[n-1].Kind == m.Kind && !parts[n-1].Ends {
			parts[n-1].Text += m.Text
			parts[n-1].Ends = m.Ends
			continue
		}
		parts = append(parts, m)
	}
	return slices.Clip(parts)
}
