package constrain

import "fmt"

// Grammar is a compiled language. It is immutable and safe for concurrent use.
type Grammar struct {
	m        *machine // complete; matchers copy it
	shortest int
}

// newGrammar completes a machine whose language is that of an expression.
func newGrammar(m *machine, root expr, what func(rule int) string) (*Grammar, error) {
	if err := m.complete(root, what); err != nil {
		return nil, err
	}
	shortest := byteCosts(m).get(root)
	switch {
	case m.err != nil:
		return nil, m.err
	case shortest == never:
		return nil, fmt.Errorf("%w: no finite text satisfies it", ErrLanguage)
	case shortest > maxShortest:
		return nil, fmt.Errorf("%w: the shortest text that satisfies it has more than %d bytes", ErrComplex, maxShortest)
	}
	m.reset()
	return &Grammar{m: m, shortest: int(shortest)}, nil
}

// Shortest returns the length in bytes of the shortest text of the language.
func (g *Grammar) Shortest() int { return g.shortest }

// Matches reports whether a text is in the language. The error wraps ErrComplex.
func (g *Grammar) Matches(text string) (bool, error) { return g.matches(text, nil) }

// matches is Matches with a meter of the memory that it takes.
func (g *Grammar) matches(text string, counted *meter) (bool, error) {
	m, err := g.m.counted(counted)
	if err != nil {
		return false, err
	}
	ok := m.accepts(text)
	return ok && m.err == nil, m.err
}
