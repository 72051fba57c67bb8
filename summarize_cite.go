package llmrun

import (
	"fmt"
	"regexp"
	"slices"
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

// A citedStatement is a statement of a source: its words, and the numbers behind it.
type citedStatement struct {
	words   map[string]bool
	numbers []string
}

// citeLike ends each statement that has no number with that of the most similar statement of source, and removes
// numbers that source does not have. A list whose items are from several statements has the numbers of all of them, also
// where the model kept some.
func citeLike(summary, source string) string {
	var known []citedStatement
	numbers := map[string]bool{}
	eachStatement(source, func(statement string) string {
		if mark := citation.FindString(statement); mark != "" {
			known = append(known, citedStatement{wordsOf(statement), numbersOf(mark)})
			for _, one := range numbersOf(mark) {
				numbers[one] = true
			}
		}
		return statement
	})
	return eachStatement(summary, func(statement string) string {
		var right []string
		add := func(list []string) {
			for _, one := range list {
				if numbers[one] && !slices.Contains(right, one) {
					right = append(right, one)
				}
			}
		}
		for _, mark := range citation.FindAllString(statement, -1) {
			add(numbersOf(mark))
		}
		text := strings.TrimRight(citation.ReplaceAllString(statement, ""), " ")
		if items := strings.Split(text, "; "); len(items) > 1 {
			for _, item := range items {
				add(mostSimilar(item, known))
			}
		} else if len(right) == 0 {
			add(mostSimilar(text, known))
		}
		if len(right) == 0 {
			return text
		}
		return text + " [" + strings.Join(right, ", ") + "]"
	})
}

// mostSimilar returns the numbers of the statement that has most words of a text, the first of several.
func mostSimilar(text string, known []citedStatement) (numbers []string) {
	words, most := wordsOf(text), -1
	for _, k := range known {
		common := 0
		for word := range words {
			if k.words[word] {
				common++
			}
		}
		if common > most {
			numbers, most = k.numbers, common
		}
	}
	return numbers
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
