package cli

import (
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// columnsOf returns a function that reads the width of a terminal, which changes while a program runs. It returns 0 for
// what is no terminal.
func columnsOf(file *os.File) func() int {
	return func() int {
		width, _, err := term.GetSize(int(file.Fd()))
		if err != nil {
			return 0
		}
		return width
	}
}

// NoColor reports whether the user wants no colours and no other styles (https://no-color.org).
func NoColor() bool { return os.Getenv("NO_COLOR") != "" }

// wide are characters that take two columns of a terminal: those of East Asia, and emoji.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1},
		{0x231a, 0x231b, 1},
		{0x23e9, 0x23ec, 1},
		{0x25fd, 0x25fe, 1},
		{0x2614, 0x2615, 1},
		{0x2648, 0x2653, 1},
		{0x26aa, 0x26ab, 1},
		{0x26bd, 0x26be, 1},
		{0x26c4, 0x26c5, 1},
		{0x2705, 0x2705, 1},
		{0x270a, 0x270b, 1},
		{0x2728, 0x2728, 1},
		{0x274c, 0x274c, 1},
		{0x2753, 0x2755, 1},
		{0x2757, 0x2757, 1},
		{0x2795, 0x2797, 1},
		{0x2b50, 0x2b50, 1},
		{0x2e80, 0x303e, 1},
		{0x3041, 0xa4cf, 1},
		{0xa960, 0xa97c, 1},
		{0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1},
		{0xfe30, 0xfe6f, 1},
		{0xff00, 0xff60, 1},
		{0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{{0x1f004, 0x1f004, 1}, {0x1f18e, 0x1f18e, 1}, {0x1f191, 0x1f19a, 1}, {0x1f200, 0x1f320, 1}, {0x1f32d, 0x1f64f, 1}, {0x1f680, 0x1f6fc, 1}, {0x1f7e0, 0x1f7eb, 1}, {0x1f90c, 0x1f9ff, 1}, {0x1fa70, 0x1faff, 1}, {0x20000, 0x3fffd, 1}},
}

// cellsOf returns the number of columns of a character.
func cellsOf(r rune) int {
	switch {
	case r < 0x300: // most text
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0 // it joins the character before it
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// Cells returns the number of columns that a line takes on a terminal.
func Cells(line string) (n int) {
	for _, r := range line {
		n += cellsOf(r)
	}
	return n
}

// cut returns the beginning of a line that takes at most so many columns.
func cut(line string, columns int) string {
	for i, r := range line {
		if columns -= cellsOf(r); columns < 0 {
			return line[:i]
		}
	}
	return line
}

// fit wraps a line of standard error to the terminal.
func (s *Streams) fit(line string) string {
	if columns := s.errColumns(); columns > 0 && Cells(line) > columns {
		return wrap(line, columns)
	}
	return line
}

// errColumns returns the width of standard error, 0 if it is no terminal.
func (s *Streams) errColumns() int {
	if !s.ErrTerminal || s.ErrColumns == nil {
		return 0
	}
	return s.ErrColumns()
}

// A filling breaks the lines of a text that is printed in pieces between words. It holds back the last word until it knows
// where that ends.
type filling struct {
	columns int    // of the terminal; 0 = unknown
	column  int    // behind what is printed
	space   string // white space before the word, not yet printed
	word    strings.Builder
	cells   int // of the word
}

// longWord is the most columns of a word that is held back: what has no white space, as Chinese has none, is broken by the
// terminal.
const longWord = 24

// add adds a piece and returns what to print.
func (f *filling) add(text string) string {
	if f.columns <= 0 {
		return f.flush() + text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			out.WriteString(f.flush())
			out.WriteByte('\n')
			f.column = 0
		case r == ' ' || r == '\t':
			if f.cells > 0 {
				out.WriteString(f.flush())
			}
			f.space += string(r)
		default:
			f.word.WriteRune(r)
			f.cells += cellsOf(r)
			if f.cells >= min(longWord, f.columns) || unicode.Is(wide, r) {
				out.WriteString(f.flush())
			}
		}
	}
	return out.String()
}

// flush returns the word that is held back, on a line of its own if this one has no room for it.
func (f *filling) flush() string {
	word, space := f.word.String(), f.space
	if word == "" && space == "" {
		return ""
	}
	indent := 0
	for _, r := range space {
		if r == '\t' {
			indent += 8 - (f.column+indent)%8
		} else {
			indent++
		}
	}
	switch cells := f.cells; {
	case f.columns <= 0 || f.column+indent+cells <= f.columns:
		f.column += indent + cells
		word = space + word
	case word == "": // the space at the end of a full line
		f.column = f.columns
	case space != "" && f.column > 0:
		f.column = cells
		word = "\n" + word
	default: // the rest of a word: the terminal breaks it
		f.column = (f.column + indent + cells) % f.columns
		word = space + word
	}
	f.space, f.cells = "", 0
	f.word.Reset()
	return word
}

// fits reports whether no line of a text is wider than width.
func fits(text string, width int) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if Cells(line) > width {
			return false
		}
	}
	return true
}

// reflow joins the lines of each paragraph and breaks them anew where a terminal is narrower than they are. Indented lines
// stay, but for explanations behind or below what they explain; see [narrowRow].
func reflow(text string, width int) string {
	if fits(text, width) {
		return text
	}
	var lines, paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			lines, paragraph = append(lines, wrap(strings.Join(paragraph, " "), width)), nil
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" && !strings.HasPrefix(line, " ") {
			paragraph = append(paragraph, line)
			continue
		}
		end()
		lines = append(lines, narrowRow(line, width))
	}
	end()
	return strings.Join(lines, "\n")
}

// narrowRow returns an indented line such as "  prog do    does it", or an explanation that stands below such a line, as
// writeRow prints it on a narrow terminal. What is to be copied stays on one line.
func narrowRow(line string, width int) string {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	if Cells(line) <= width {
		return line
	}
	head, explanation := "", text
	if indent <= narrowColumn {
		head, explanation, _ = strings.Cut(text, "  ")
	}
	var lines []string
	if head != "" {
		lines = append(lines, line[:indent]+head)
	}
	if explanation = wrap(strings.TrimSpace(explanation), width-narrowColumn); explanation != "" {
		for row := range strings.SplitSeq(explanation, "\n") {
			lines = append(lines, strings.Repeat(" ", narrowColumn)+row)
		}
	}
	return strings.Join(lines, "\n")
}
