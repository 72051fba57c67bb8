package sample

import "strings"

// StopMatcher finds the first stop string in a text that arrives in pieces. The result
// does not depend on the boundaries of the pieces. A StopMatcher is not safe for
// concurrent use.
//
// Every stop string has a Knuth-Morris-Pratt automaton, so a byte of text takes
// amortized constant time per stop string.
type StopMatcher struct {
	stops   []stop
	pending string // retained text: a suffix that may start a stop string
	matched string // stop string that was found, or ""
}

// stop is a stop string with its automaton.
type stop struct {
	text string
	// fallback[n] is the length of the longest proper prefix of text that is
	// also a suffix of text[:n+1].
	fallback []int
	matching int // length of the prefix of text that the pushed text ends with
}

// NewStopMatcher returns a matcher for the given stop strings. Without stop strings the
// matcher emits all text. The error is a *ParamError.
func NewStopMatcher(stops []string) (*StopMatcher, error) {
	if err := validateStops(stops); err != nil {
		return nil, err
	}
	m := &StopMatcher{stops: make([]stop, len(stops))}
	for i, text := range stops {
		m.stops[i] = newStop(text)
	}
	return m, nil
}

// newStop builds the automaton. It runs the incomplete automaton over its own text to
// compute fallback.
func newStop(text string) stop {
	s := stop{text: text, fallback: make([]int, len(text))}
	for i := 1; i < len(text); i++ {
		s.advance(text[i])
		s.fallback[i] = s.matching
	}
	s.matching = 0
	return s
}

// advance processes one byte and reports whether the stop string is complete.
func (s *stop) advance(b byte) bool {
	for s.matching > 0 && s.text[s.matching] != b {
		s.matching = s.fallback[s.matching-1]
	}
	if s.text[s.matching] == b {
		s.matching++
	}
	return s.matching == len(s.text)
}

// Push processes the next piece of text and returns the text to emit. When a stop
// string is complete, emit is the text before it, and stopped is true for this and all
// later calls. If two stop strings end at the same byte, the longer one wins. If all
// pieces consist of complete UTF-8 characters, so does the emitted text.
func (m *StopMatcher) Push(text string) (emit string, stopped bool) {
	if m.matched != "" {
		return "", true
	}
	for i := range len(text) {
		for j := range m.stops {
			s := &m.stops[j]
			if s.advance(text[i]) && len(s.text) > len(m.matched) {
				m.matched = s.text
			}
		}
		if m.matched != "" {
			pending := m.pending + text[:i+1]
			m.pending = ""
			return strings.TrimSuffix(pending, m.matched), true
		}
	}
	hold := 0
	for _, s := range m.stops {
		hold = max(hold, s.matching)
	}
	pending := m.pending + text
	m.pending = pending[len(pending)-hold:]
	return pending[:len(pending)-hold], false
}

// Flush returns the retained text at the end of a generation and resets the matcher.
func (m *StopMatcher) Flush() string {
	held := m.pending
	m.pending, m.matched = "", ""
	for i := range m.stops {
		m.stops[i].matching = 0
	}
	return held
}

// Matched returns the stop string that was found, or "".
func (m *StopMatcher) Matched() string { return m.matched }
