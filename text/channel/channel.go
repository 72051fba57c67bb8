// Package channel splits answers in the harmony format, which gpt-oss writes: special tokens divide an
// answer into messages, and the header of a message names its channel: analysis has what the model thinks,
// commentary what it says to tools or before it calls them, final what the user reads.
package channel

import (
	"slices"
	"strings"
)

// The channels.
const (
	Analysis   = "analysis"
	Commentary = "commentary"
	Final      = "final"
)

// The marks within the header of a call: before the form of its arguments, and behind the header.
const (
	Constrain = "<|constrain|>"
	Message   = "<|message|>"
)

// spellings are the special tokens of the format, in the order of the marks.
var spellings = [...]string{"<|start|>", "<|channel|>", Constrain, Message, "<|end|>", "<|return|>", "<|call|>"}

// The marks of the format.
const (
	start = iota
	channel
	constrain
	message
	end
	returns
	call
	marks
)

// longestHeader is how many bytes of a header are read, before the token that exceeds it.
const longestHeader = 1 << 10

// Format finds the marks of the harmony format in a vocabulary.
type Format struct {
	ids  [marks]int32
	text func(id int32) []byte
}

// New returns the format of a vocabulary; nil if it lacks a mark. id returns the id of a token, text the
// bytes that decoding adds for it.
func New(id func(piece string) (int32, bool), text func(id int32) []byte) *Format {
	f := &Format{text: text}
	for i, s := range spellings {
		var ok bool
		if f.ids[i], ok = id(s); !ok {
			return nil
		}
	}
	return f
}

// HeaderMarks returns the ids and the spellings of the marks within the header of a call, behind its name. f may be nil.
func (f *Format) HeaderMarks() map[int32]string {
	if f == nil {
		return nil
	}
	return map[int32]string{f.ids[constrain]: Constrain, f.ids[message]: Message}
}

// Splitter follows the tokens of an answer. The zero value of a model without channels shows all tokens.
type Splitter struct {
	format *Format

	header  []byte // of the message that begins
	inside  bool   // the token before belongs to a header
	hidden  bool   // between messages
	name    string
	to      string
	channel int // where the name of the channel begins in header; 0 before its mark
}

// Behind returns a splitter for what follows a prompt. f may be nil.
func (f *Format) Behind(prompt []int32) Splitter {
	s := Splitter{format: f}
	if f == nil {
		return s
	}
	at := len(prompt) - 1
	for at >= 0 && prompt[at] != f.ids[start] {
		at--
	}
	if at >= 0 {
		for _, id := range prompt[at:] {
			s.Next(id)
		}
	}
	return s
}

// Next takes a token and reports whether it is text of a message, rather than a mark or a header.
func (s *Splitter) Next(id int32) (visible bool) {
	if s.format == nil {
		return true
	}
	switch mark := slices.Index(s.format.ids[:], id); {
	case mark == start:
		*s = Splitter{format: s.format, inside: true, header: s.header[:0]}
	case mark == channel:
		s.beginChannel()
	case mark == constrain:
		s.header = append(s.header, ' ')
	case mark == message:
		s.readHeader()
		s.inside, s.hidden = false, false
	case mark >= 0:
		s.inside, s.hidden = false, true
	case s.inside:
		if len(s.header) < longestHeader {
			s.header = append(s.header, s.format.text(id)...)
		}
	default:
		return !s.hidden
	}
	return false
}

// beginChannel notes that the name of the channel follows. Answers may begin with it.
func (s *Splitter) beginChannel() {
	if !s.inside {
		s.header, s.inside = s.header[:0], true
	}
	s.header = append(s.header, ' ')
	s.channel = len(s.header)
}

// readHeader takes the channel and the recipient from the header of a message.
func (s *Splitter) readHeader() {
	s.name, s.to = "", ""
	for _, word := range strings.Fields(string(s.header)) {
		if to, ok := strings.CutPrefix(word, "to="); ok {
			s.to = to
		}
	}
	if s.channel > 0 {
		if words := strings.Fields(string(s.header[s.channel:])); len(words) > 0 && !strings.HasPrefix(words[0], "to=") {
			s.name = words[0]
		}
	}
	s.header, s.channel = s.header[:0], 0
}

// Shows reports whether the next token is text of a message, unless it is a mark.
func (s *Splitter) Shows() bool { return !s.inside && !s.hidden }

// InHeader reports whether the last token belongs to the header of a message.
func (s *Splitter) InHeader() bool { return s.inside }

// WouldAnswer reports whether a message would be one that the user reads if its header ended here.
func (s *Splitter) WouldAnswer() bool {
	ended := *s
	ended.readHeader()
	return ended.Answers()
}

// Answers reports whether the last message is one that the user reads.
func (s *Splitter) Answers() bool { return (s.name == "" || s.name == Final) && s.to == "" }

// Channel returns the channel of the last message, "" if its header names none.
func (s *Splitter) Channel() string { return s.name }

// Recipient returns to which tool the last message is, such as functions.weather; "" if to none.
func (s *Splitter) Recipient() string { return s.to }
