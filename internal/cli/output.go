package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Streams are the standard streams of a program. Results go to Out; timings, progress and errors
// go to Err.
type Streams struct {
	In          *os.File
	Out         *output
	Err         io.Writer
	InTerminal  bool // In is a terminal
	ErrTerminal bool // Err is a terminal
	// ErrColumns returns the width of the terminal that Err is, 0 if it is unknown; nil: it is.
	ErrColumns func() int
	Quiet      bool // -q: only the result
}

// SystemStreams returns the streams of the process.
func SystemStreams() *Streams {
	return &Streams{
		In:          os.Stdin,
		Out:         &output{w: os.Stdout, Terminal: term.IsTerminal(int(os.Stdout.Fd())), columns: columnsOf(os.Stdout)},
		Err:         os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		ErrColumns:  columnsOf(os.Stderr),
	}
}

// An output remembers the first error of a write, so that callers check once, with Failure.
type output struct {
	w        io.Writer
	Terminal bool
	err      error
	last     byte // the last byte written; 0 before the first

	columns func() int // of the terminal; nil: unknown
	line    filling    // the end of the text of a model
}

func (o *output) Write(p []byte) (int, error) {
	if held := o.line.flush(); held != "" {
		_, _ = o.write([]byte(held))
	}
	o.line.column = 0
	return o.write(p)
}

// write writes what follows the text that is held back.
func (o *output) write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := o.w.Write(p)
	if n > 0 {
		o.last = p[n-1]
	}
	o.err = err
	return n, err
}

// Columns returns the columns of the terminal, 0 if it is none.
func (o *output) Columns() int {
	if !o.Terminal || o.columns == nil {
		return 0
	}
	return o.columns()
}

// Failure returns the first error of a write.
func (o *output) Failure() error {
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("writing the result: %w", o.err)
}

// ModelText writes text from a model or its files. On a terminal it makes control characters
// visible, so that the text cannot move the cursor, set the title, fill the clipboard or change
// the order of what is shown. There it also breaks lines between words; the last word is held back until its end is known, or
// until EndLine.
func (o *output) ModelText(text string) {
	if !o.Terminal {
		fmt.Fprint(o, text)
		return
	}
	if o.columns != nil {
		o.line.columns = o.columns()
	}
	_, _ = o.write([]byte(o.line.add(VisibleText(text))))
}

// EndLine writes a line break unless the last byte was one.
func (o *output) EndLine() {
	if held := o.line.flush(); held != "" {
		_, _ = o.write([]byte(held))
	}
	o.line.column = 0
	if o.last != '\n' && o.last != 0 {
		fmt.Fprintln(o)
	}
}

// pictures is the first of Unicode's pictures of control characters.
const pictures = 0x2400

// bidirectional are the characters that change the order in which text is shown: marks,
// embeddings and overrides, and isolates. A terminal shows nothing in their place.
const bidirectional = "\u061C\u200E\u200F\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069"

// VisibleText replaces control characters by their pictures in Unicode, and characters that change
// the order of text by their numbers, such as <U+202E>. Line breaks and tabs stay.
func VisibleText(text string) string {
	text = strings.Map(visibleRune, text)
	if !strings.ContainsAny(text, bidirectional) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(bidirectional, r) {
			fmt.Fprintf(&b, "<U+%04X>", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// visibleRune maps control characters to their pictures in Unicode. Line breaks and tabs stay.
func visibleRune(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\r':
		return -1
	case r < 0x20:
		return pictures + r
	case r == 0x7f:
		return pictures + 0x21
	case r >= 0x80 && r < 0xa0:
		return '\uFFFD'
	}
	return r
}

// Visible returns a writer that passes VisibleText of each write to w, for reports that contain
// names.
func Visible(w io.Writer) io.Writer { return visibleWriter{w} }

type visibleWriter struct{ w io.Writer }

func (v visibleWriter) Write(p []byte) (int, error) {
	if _, err := io.WriteString(v.w, VisibleText(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// VisibleLine is VisibleText for text that a file stores, such as a name, as a part of one line:
// line breaks and tabs become pictures too.
func VisibleLine(text string) string {
	return VisibleText(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return pictures + r
		}
		return r
	}, text))
}

// WriteJSON writes v as JSON on one line. Characters that a terminal obeys are escaped.
func (o *output) WriteJSON(v any) error {
	encoder := json.NewEncoder(plainJSON{o})
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// A JSONList is a list in a value that [output.WriteJSONLists] prints, which calls it for the elements one after the other. The zero value is
// no list, which omitzero leaves out.
type JSONList func(yield func(element any) bool)

// listPlace is what stands in place of a list until its elements are written. A string cannot contain it, because its quotes are escaped
// there, so name:[null] is never text of a model.
var listPlace = []byte(`[null]`)

// MarshalJSON implements [json.Marshaler].
func (JSONList) MarshalJSON() ([]byte, error) { return listPlace, nil }

// WriteJSONLists is WriteJSON for a value with lists, all with the same name, in the order in which they are in the value. It writes
// element by element, because a list as one text would take many times the memory of what it is made of.
func (o *output) WriteJSONLists(v any, name string, lists ...JSONList) error {
	var rest bytes.Buffer
	encoder := json.NewEncoder(&rest)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	out, place := plainJSON{o}, slices.Concat(fmt.Appendf(nil, "%q:", name), listPlace)
	for _, list := range lists {
		before, _, _ := bytes.Cut(rest.Bytes(), place)
		if _, err := out.Write(rest.Next(len(before) + len(place) - len(listPlace))); err != nil {
			return err
		}
		rest.Next(len(listPlace))
		if err := writeJSONList(out, list); err != nil {
			return err
		}
	}
	_, err := out.Write(rest.Bytes())
	return err
}

// writeJSONList writes a list.
func writeJSONList(out io.Writer, list JSONList) error {
	if _, err := io.WriteString(out, "["); err != nil {
		return err
	}
	separator := ""
	for element := range list {
		text := bytes.NewBufferString(separator)
		encoder := json.NewEncoder(text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(element); err != nil {
			return err
		}
		text.Truncate(text.Len() - len("\n"))
		if _, err := out.Write(text.Bytes()); err != nil {
			return err
		}
		separator = ","
	}
	_, err := io.WriteString(out, "]")
	return err
}

// plainJSON escapes what JSON permits within strings although a terminal obeys it.
type plainJSON struct{ w io.Writer }

func (p plainJSON) Write(text []byte) (int, error) {
	obeyed := func(r rune) bool {
		return r >= 0x7f && r < 0xa0 || strings.ContainsRune(bidirectional, r)
	}
	var escaped []byte
	for rest := text; len(rest) > 0; {
		i := bytes.IndexFunc(rest, obeyed)
		if i < 0 {
			escaped = append(escaped, rest...)
			break
		}
		r, size := utf8.DecodeRune(rest[i:])
		escaped = fmt.Appendf(append(escaped, rest[:i]...), "\\u%04x", r)
		rest = rest[i+size:]
	}
	if _, err := p.w.Write(escaped); err != nil {
		return 0, err
	}
	return len(text), nil
}

// WriteRows prints a JSON object whose member name is an array of rows; opening is the text
// before that member, and more are members behind it. It writes row by row because the logits of a long prompt, as one text,
// would take several times their own memory.
func (o *output) WriteRows(opening, name string, rows [][]float32, more ...string) error {
	text := fmt.Appendf(nil, "%s%q:[", opening, name)
	for i, row := range rows {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendJSONRow(text, row)
		if _, err := o.Write(text); err != nil {
			return err
		}
		text = text[:0]
	}
	text = append(text, ']')
	for _, member := range more {
		text = append(append(text, ','), member...)
	}
	_, err := o.Write(append(text, "}\n"...))
	return err
}

func appendJSONRow(text []byte, row []float32) []byte {
	text = append(text, '[')
	for i, x := range row {
		if i > 0 {
			text = append(text, ',')
		}
		text = appendJSONFloat(text, x)
	}
	return append(text, ']')
}

// appendJSONFloat appends x with the fewest digits that restore the same float32. NaN and
// infinities, which JSON lacks, become null.
func appendJSONFloat(text []byte, x float32) []byte {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return append(text, "null"...)
	}
	return strconv.AppendFloat(text, float64(x), 'g', -1, 32)
}

// Note reports a problem that does not change the result, on standard error.
func (s *Streams) Note(text string) {
	if !s.Quiet {
		fmt.Fprintln(s.Err, s.fit("llmrun: "+OneLine(errors.New(text))))
	}
}

// Say prints lines for a person on standard error, as wide as the terminal. They may contain names from files.
func (s *Streams) Say(text string) {
	for line := range strings.SplitSeq(VisibleText(text), "\n") {
		fmt.Fprintln(s.Err, s.fit(line))
	}
}

// SayRow is Say for a head, and its explanation from a column on. A narrow terminal has it below the head.
func (s *Streams) SayRow(head, explanation string, column int) {
	columns := s.errColumns()
	if columns <= 0 {
		columns = math.MaxInt
	}
	writeRow(s.Err, head, explanation, column, columns)
}

// OneLine returns err as one line without control characters, which names from a file may contain.
// It joins the lines of several errors.
func OneLine(err error) string {
	var text strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = strings.Join(strings.Fields(line), " ")
		switch {
		case line == "" || text.Len() == 0:
		case strings.HasSuffix(text.String(), ":"):
			text.WriteByte(' ')
		default:
			text.WriteString("; ")
		}
		text.WriteString(line)
	}
	return VisibleText(text.String())
}

// FormatBytes formats a size in binary units.
func FormatBytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// FormatCount formats a number of parameters: 14.9M, 7.62B.
func FormatCount(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1fK", float64(n)/1e3)
	}
	return strconv.FormatInt(n, 10)
}

// ExactText writes text unchanged to a file or pipe, or as a JSON object. A terminal gets pictures
// of control characters, and a line break at the end.
func (o *output) ExactText(text string, asJSON bool) error {
	switch {
	case asJSON:
		return o.WriteJSON(struct {
			Text string `json:"text"`
		}{text})
	case o.Terminal:
		o.ModelText(text)
		o.EndLine()
	default:
		fmt.Fprint(o, text)
	}
	return nil
}
