package token

import "strings"

// Scanners for the alternatives that are not sequences of character sets. The keys of
// namedScanners are the spellings in published tokenizer files.

const (
	exprContraction      = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	exprContractionPairs = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	caseLead             = `[^\r\n\p{L}\p{N}]?`
	caseUpper            = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	caseLower            = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`

	exprCapitalized = caseLead + caseUpper + `*` + caseLower + `+`
	exprUppercase   = caseLead + caseUpper + `+` + caseLower + `*`
)

// namedScanner is a scanner that may read much text without a match. To guarantee
// linear time, the alternative requires must follow in the expression. That alternative
// consumes the text that the scanner has read, so the scanner does not read the text
// again from every position.
type namedScanner struct {
	scan     scanner
	requires string
}

// namedScanners maps the spelling of an alternative to its scanner.
var namedScanners = map[string]namedScanner{
	exprContraction:                              {scan: scanContraction(true)},
	exprContractionPairs:                         {scan: scanContraction(true)},
	`'(?i:[sdmt]|ll|ve|re)`:                      {scan: scanContraction(true)},
	`'(?:[sdmt]|ll|ve|re)`:                       {scan: scanContraction(false)},
	`(?:'s|'t|'re|'ve|'m|'ll|'d)`:                {scan: scanContraction(false)},
	`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])`: {scan: scanContraction(true)},

	`\s+(?!\S)`:  {scan: scanInnerSpace},
	`\s*[\r\n]+`: {scan: scanLineEnds, requires: `\s+(?!\S)`},
	`\s*[\r\n]`:  {scan: scanLineEnds, requires: `\s+(?!\S)`}, // \s* consumes all line ends but the last
	`\s+$`:       {scan: scanFinalSpace, requires: `\s+(?!\S)`},
	`\s++$`:      {scan: scanFinalSpace, requires: `\s+(?!\S)`},

	exprCapitalized:                              {scan: scanCapitalized(false), requires: exprUppercase},
	exprUppercase:                                {scan: scanUppercase(false)},
	exprCapitalized + exprContraction + `?`:      {scan: scanCapitalized(true), requires: exprUppercase + exprContraction + `?`},
	exprUppercase + exprContraction + `?`:        {scan: scanUppercase(true)},
	exprCapitalized + exprContractionPairs + `?`: {scan: scanCapitalized(true), requires: exprUppercase + exprContractionPairs + `?`},
	exprUppercase + exprContractionPairs + `?`:   {scan: scanUppercase(true)},
}

var (
	// The character sets of the scanners.
	setSpace = newCharSet(classAnySpace, nil, false)
	setLead  = newCharSet(classLetter|classNumber|classLineEnd, nil, true)
	setUpper = newCharSet(classUpper|classUncased|classMark, nil, false)
	setLower = newCharSet(classLower|classUncased|classMark, nil, false)
)

// scanContraction matches the English contractions 's 't 're 've 'm 'll 'd.
func scanContraction(fold bool) scanner {
	return func(text string, at int) int {
		if text[at] != '\'' {
			return -1
		}
		for _, ending := range [...]string{"s", "t", "re", "ve", "m", "ll", "d"} {
			end := at + 1 + len(ending)
			if end > len(text) {
				continue
			}
			if found := text[at+1 : end]; found == ending || fold && strings.EqualFold(found, ending) {
				return end
			}
		}
		return -1
	}
}

// scanLineEnds matches white space up to and including its last line end.
func scanLineEnds(text string, at int) int {
	end := -1
	for at < len(text) {
		r, width := decode(text, at)
		if !setSpace.has(r) {
			break
		}
		at += width
		if r == '\n' || r == '\r' {
			end = at
		}
	}
	return end
}

// scanInnerSpace matches white space at the end of the text. Before a word it matches
// all but the last character of the white space.
func scanInnerSpace(text string, at int) int {
	end, last := at, at
	for end < len(text) {
		r, width := decode(text, end)
		if !setSpace.has(r) {
			if last == at {
				return -1
			}
			return last
		}
		last = end
		end += width
	}
	return end
}

// scanFinalSpace matches white space at the end of the text.
func scanFinalSpace(text string, at int) int {
	end, count := setSpace.run(text, at, unlimited)
	if count == 0 || end < len(text) {
		return -1
	}
	return end
}

// trailingSpace finds the matches of scanFinalSpace by scanning from the end of the
// text. It is used for an expression without other alternatives, where trying
// scanFinalSpace at every position takes quadratic time.
type trailingSpace struct{}

func (trailingSpace) find(text string, from int) (start, end int) {
	trimmed := strings.TrimRightFunc(text[from:], func(r rune) bool {
		return classOf(r)&classAnySpace != 0
	})
	return from + len(trimmed), len(text)
}

// scanCapitalized matches an optional lead, any number of upper-case letters and at
// least one lower-case letter. Uncased letters and marks count as both, so the
// upper-case run may have to return its last such character.
func scanCapitalized(contraction bool) scanner {
	suffix := scanContraction(true)
	body := func(text string, at int) int {
		both := -1 // end of the last character that counts as both
		for at < len(text) {
			r, width := decode(text, at)
			if !setUpper.has(r) {
				break
			}
			at += width
			if setLower.has(r) {
				both = at
			}
		}
		// A lower-case letter after the run completes the match. Otherwise the last
		// character of the run that counts as both must serve as the lower-case letter.
		if end, count := setLower.run(text, at, unlimited); count > 0 {
			return end
		}
		return both
	}
	return withLead(body, suffix, contraction)
}

// scanUppercase matches an optional lead, at least one upper-case letter and any number
// of lower-case letters.
func scanUppercase(contraction bool) scanner {
	body := func(text string, at int) int {
		end, count := setUpper.run(text, at, unlimited)
		if count == 0 {
			return -1
		}
		end, _ = setLower.run(text, end, unlimited)
		return end
	}
	return withLead(body, scanContraction(true), contraction)
}

// withLead adds an optional lead before body and an optional contraction after it.
func withLead(body, suffix scanner, contraction bool) scanner {
	return func(text string, at int) int {
		end := -1
		if r, width := decode(text, at); setLead.has(r) {
			end = body(text, at+width)
		}
		if end < 0 {
			end = body(text, at)
		}
		if contraction && end >= 0 && end < len(text) {
			end = max(end, suffix(text, end))
		}
		return end
	}
}
