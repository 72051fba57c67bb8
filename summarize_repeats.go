package llmrun

import "strings"

const (
	// repeatCopies and repeatBytes are the least that an answer has to repeat to be stopped: a list can say the same
	// twice, and a table has lines that are alike.
	repeatCopies, repeatBytes = 3, 160
	// repeatPeriod is the longest piece whose copies are looked for.
	repeatPeriod = 512
)

// withoutRepeats returns what a text says once if it ends with copies of one piece, as the answer of a small model does that
// has lost its way: the first copy, and the statement with which it ends.
func withoutRepeats(text string) (once string, repeats bool) {
	start, period := copiesAtEnd(text, repeatCopies, repeatBytes)
	if period == 0 {
		return text, false
	}
	second := start + period
	return strings.TrimRight(text[:repeatedEnd(text[:second+period], second)], " \t\r\n;"), true
}

// copiesAtEnd returns where the copies of one piece begin with which a text ends, and the length of the piece; 0 if there
// are fewer than so many, or they have fewer bytes.
func copiesAtEnd(text string, copies, bytes int) (start, period int) {
	for period := 1; period <= min(repeatPeriod, len(text)/copies); period++ {
		start := len(text) - period
		least := max(copies*period, bytes)
		if len(text) < least || text[len(text)-1] != text[start-1] || text[start:] != text[start-period:start] {
			continue
		}
		for start > 0 && text[start-1] == text[start-1+period] {
			start--
		}
		if len(text)-start >= least {
			return start, period
		}
	}
	return 0, 0
}

// loops reports whether an answer has lost its way: it ends with so many copies of one piece that nobody can have asked for
// them.
func loops(text string) bool {
	const copies, bytes = 8, 600
	_, period := copiesAtEnd(text, copies, bytes)
	return period > 0
}

// repeatedEnd returns where the statement ends that second lies in, or second if none ends behind it.
func repeatedEnd(text string, second int) int {
	for at := second; at < len(text); at++ {
		if text[at] == '\n' || text[at] == ' ' && strings.IndexByte(".!?;", text[at-1]) >= 0 {
			return at
		}
	}
	return second
}
