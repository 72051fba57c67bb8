package sample

import "strings"

// StopMatcher finds the first stop string in a text that arrives in pieces. The
// result does not depend on how the text is cut. One goroutine uses it.
//
// Every stop string has its own Knuth-Morris-Pratt automaton, so a byte of text
// costs a small constant for each of the at most MaxStops strings.
type StopMatcher struct {
	stops   []stop
	pending string // may yet turn out to begin a stop string
	matched string // the stop string that was found
}

type stop struct {
	text string
	// fallback[n] is the length of the longest proper prefix of text that is
	// also a suffix of text[:n+1].
	fallback []int
	matching int // so many bytes of text are the end of what was pushed
}

// NewStopMatcher returns a matcher for these strings; with none it lets
// everything through. The error is a *ParamError.
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

func newStop(text string) stop {
	s := stop{text: text, fallback: make([]int, len(text))}
	for i := 1; i < len(text); i++ {
		s.advance(text[i])
		s.fallback[i] = s.matching
	}
	s.matching = 0
	return s
}

// advance advances by one byte and reports whether the string is complete.
func (s *stop) advance(b byte) bool {
	for s.matching > 0 && s.text[s.matching] != b {
		s.matching = s.fallback[s.matching-1]
	}
	if s.text[s.matching] == b {
		s.matching++
	}
	return s.matching == len(s.text)
}

// Push takes the next piece of text and returns what can be shown now. Once a
// stop string is complete, emit is the text before it and stopped is true, then
// and for every later call. Of two that end at the same byte the longer counts.
// Pieces of whole UTF-8 characters come out in whole characters.
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

// Flush returns what is still held back, at the end of a generation that no stop
// string ended. The matcher is then as new.
func (m *StopMatcher) Flush() string {
	held := m.pending
	m.pending, m.matched = "", ""
	for i := range m.stops {
		m.stops[i].matching = 0
	}
	return held
}

// Matched returns the stop string that was found, "" if none was.
func (m *StopMatcher) Matched() string { return m.matched }
