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
	for period := 1; period <= min(repeatPeriod, len(text)/repeatCopies); period++ {
		start := len(text) - period
		if least := max(repeatCopies*period, repeatBytes); len(text) < least || text[len(text)-1] != text[start-1] || text[start:] != text[start-period:start] {
			continue
		}
		for start > 0 && text[start-1] == text[start-1+period] {
			start--
		}
		if len(text)-start >= max(repeatCopies*period, repeatBytes) {
			second := start + period
			return strings.TrimRight(text[:repeatedEnd(text[:second+period], second)], " \t\r\n;"), true
		}
	}
	return text, false
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
