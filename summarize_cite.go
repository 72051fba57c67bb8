package llmrun

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// citation is the numbers of parts behind a statement.
var citation = regexp.MustCompile(`\s*\[\d+(?:, ?\d+)*\]`)

// cite ends each statement of a summary with the number of its part. Numbers that the text of the document has put
// there are kept apart by parentheses.
func cite(summary string, part int) string {
	summary = citation.ReplaceAllStringFunc(summary, func(s string) string {
		return strings.NewReplacer("[", "(", "]", ")").Replace(s)
	})
	return eachStatement(summary, func(statement string) string { return fmt.Sprintf("%s [%d]", statement, part) })
}

// citeLike ends each statement that has no number with that of the most similar statement of source, and removes
// numbers that source does not have.
func citeLike(summary, source string) string {
	type cited struct {
		words map[string]bool
		mark  string
	}
	var known []cited
	marks := map[string]bool{}
	eachStatement(source, func(statement string) string {
		if mark := strings.TrimSpace(citation.FindString(statement)); mark != "" {
			known = append(known, cited{wordsOf(statement), mark})
			for _, one := range numbersOf(mark) {
				marks[one] = true
			}
		}
		return statement
	})
	return eachStatement(summary, func(statement string) string {
		var right []string
		seen := map[string]bool{}
		for _, mark := range citation.FindAllString(statement, -1) {
			for _, one := range numbersOf(mark) {
				if marks[one] && !seen[one] {
					right, seen[one] = append(right, one), true
				}
			}
		}
		text := strings.TrimRight(citation.ReplaceAllString(statement, ""), " ")
		if len(right) > 0 {
			return text + " [" + strings.Join(right, ", ") + "]"
		}
		best, most := "", -1
		words := wordsOf(text)
		for _, k := range known {
			common := 0
			for word := range words {
				if k.words[word] {
					common++
				}
			}
			if common > most {
				best, most = k.mark, common
			}
		}
		if best == "" {
			return text
		}
		return text + " " + best
	})
}

// numbersOf returns the numbers of a citation.
func numbersOf(mark string) []string {
	return strings.FieldsFunc(mark, func(r rune) bool { return !unicode.IsDigit(r) })
}

// wordsOf returns the words of a statement, in lower case.
func wordsOf(statement string) map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsFuncSeq(strings.ToLower(citation.ReplaceAllString(statement, "")), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		words[word] = true
	}
	return words
}

// eachStatement returns a text with the result of change for each statement: a sentence, or a line. A mark behind a
// sentence belongs to it. Headings stay.
func eachStatement(text string, change func(string) string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		end := line[len(strings.TrimRight(line, "\r\n")):]
		line = strings.TrimRight(line, "\r\n")
		if body := strings.TrimSpace(line); body == "" || body[0] == '#' {
			b.WriteString(line + end)
			continue
		}
		for from := 0; from < len(line); {
			to := statementEnd(line, from)
			statement := strings.TrimRight(line[from:to], " ")
			if from > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(change(statement))
			for from = to; from < len(line) && line[from] == ' '; {
				from++
			}
		}
		b.WriteString(end)
	}
	return b.String()
}

// statementEnd returns where the statement ends that begins at from: behind a sentence and its citation.
func statementEnd(line string, from int) int {
	for at := from; at < len(line); at++ {
		if line[at] != '.' && line[at] != '!' && line[at] != '?' {
			continue
		}
		end := at + 1
		if mark := citation.FindStringIndex(line[end:]); mark != nil && mark[0] == 0 {
			return end + mark[1]
		}
		next := strings.TrimLeft(line[end:], " ")
		if next == "" || len(next) < len(line[end:]) && at-from >= 8 && startsSentence(next) {
			return end
		}
	}
	return len(line)
}

// startsSentence reports whether a text can be the beginning of a sentence.
func startsSentence(text string) bool {
	for _, r := range text {
		return !unicode.IsLower(r) && !unicode.IsPunct(r)
	}
	return false
}
