package document

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"path"
	"strings"
)

// isHTML reports whether a document is HTML: by its name, or by how it begins.
func isHTML(head []byte, name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm", ".xhtml":
		return true
	case ".md", ".markdown", ".txt":
		return false
	}
	begin := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	return bytes.HasPrefix(begin, []byte("<!doctype html")) || bytes.HasPrefix(begin, []byte("<html"))
}

const (
	// maxTag is the most bytes of a tag that are looked at; what is longer, such as a picture in an attribute,
	// is read past.
	maxTag = 4 << 10
	// maxEntity is the most bytes of a character reference.
	maxEntity = 32
)

// skippedElements have no text for readers.
var skippedElements = map[string]bool{
	"script": true, "style": true, "template": true, "noscript": true, "svg": true, "math": true, "title": true,
	"select": true, "iframe": true, "object": true, "nav": true,
}

// breaks is how many line breaks stand before and behind an element.
var breaks = map[string]int{
	"p": 2, "div": 1, "section": 2, "article": 2, "header": 2, "footer": 2, "main": 2, "aside": 2, "figure": 2, "figcaption": 1,
	"h1": 2, "h2": 2, "h3": 2, "h4": 2, "h5": 2, "h6": 2, "ul": 1, "ol": 1, "dl": 1, "li": 1, "dt": 1, "dd": 1,
	"table": 2, "tr": 1, "blockquote": 2, "pre": 2, "br": 1, "hr": 2, "address": 1, "form": 1, "body": 2,
}

// extractHTML writes the text of HTML or XHTML to w, in one pass and in constant memory. Elements that are not
// closed, tags in the wrong order and unknown entities are read as browsers do, near enough for a reader.
func extractHTML(w io.Writer, r io.Reader) error {
	e := &extractor{r: bufio.NewReader(r), w: bufio.NewWriter(w)}
	for {
		c, err := e.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			e.end()
			return e.w.Flush()
		case err != nil:
			return err
		case c == 0:
			return &Refused{What: "binary (a zero byte in HTML)", Hint: "name a text"}
		case c == '<':
			err = e.tag()
		case c == '&' && e.skip == "":
			e.entity()
		case e.skip == "":
			e.put(c)
		}
		if err != nil {
			return err
		}
	}
}

// extractor is the state of extractHTML.
type extractor struct {
	r *bufio.Reader
	w *bufio.Writer

	skip    string // the element that is left out, "" for none
	nested  int    // elements of that name within it
	pre     int    // open elements whose white space counts
	space   bool   // white space before the next character
	breaks  int    // line breaks before the next character
	begun   bool   // something was written
	pending string // what begins the next line: the marks of a heading or of a list
}

// put writes a byte of text.
func (e *extractor) put(c byte) {
	if e.pre > 0 && (c == '\n' || c == ' ' || c == '\t') {
		switch {
		case c == '\n':
			e.breaks, e.pending = e.breaks+1, ""
		case e.breaks > 0: // the line's indentation
			e.pending += string(c)
		default:
			_ = e.w.WriteByte(c) // Flush reports errors
		}
		return
	}
	if c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' {
		e.space = true
		return
	}
	switch {
	case e.breaks > 0 && e.begun:
		for range min(e.breaks, 2) {
			_ = e.w.WriteByte('\n')
		}
	case e.space && e.begun && e.pending == "":
		_ = e.w.WriteByte(' ')
	}
	if e.pending != "" {
		_, _ = e.w.WriteString(e.pending)
	}
	e.breaks, e.space, e.pending, e.begun = 0, false, "", true
	_ = e.w.WriteByte(c)
}

// end writes the last line break.
func (e *extractor) end() {
	if e.begun {
		_ = e.w.WriteByte('\n')
	}
}

// entity reads a character reference behind its &.
func (e *extractor) entity() {
	var name strings.Builder
	name.WriteByte('&')
	for name.Len() < maxEntity {
		next, err := e.r.Peek(1)
		if err != nil || !(next[0] == '#' || next[0] == ';' || next[0] >= '0' && next[0] <= '9' || next[0] >= 'A' && next[0] <= 'Z' || next[0] >= 'a' && next[0] <= 'z') {
			break
		}
		name.WriteByte(next[0])
		_, _ = e.r.Discard(1)
		if next[0] == ';' {
			break
		}
	}
	text := strings.ReplaceAll(html.UnescapeString(name.String()), "\u00a0", " ")
	for i := range len(text) {
		e.put(text[i])
	}
}

// tag reads what begins with <.
func (e *extractor) tag() error {
	next, _ := e.r.Peek(3) // reading on reports the error
	if len(next) == 0 {
		e.literal()
		return nil
	}
	switch {
	case e.skip != "" && next[0] != '/' && (e.skip == "script" || e.skip == "style"):
		return nil // not HTML
	case bytes.Equal(next, []byte("!--")):
		return e.past("-->")
	case next[0] == '!' && len(next) > 2 && next[1] == '[':
		return e.cdata()
	case next[0] == '!' || next[0] == '?':
		return e.past(">")
	case next[0] != '/' && !isLetter(next[0]), next[0] == '/' && (len(next) < 2 || !isLetter(next[1])):
		e.literal()
		return nil
	}
	body, err := e.body()
	if err != nil {
		return err
	}
	closes := body[0] == '/'
	name := strings.TrimPrefix(body, "/")
	if i := strings.IndexAny(name, " \t\r\n/>"); i >= 0 {
		name = name[:i]
	}
	name = strings.ToLower(name[strings.LastIndexByte(name, ':')+1:])
	e.element(name, closes, strings.HasSuffix(body, "/"))
	return nil
}

// literal writes a < that begins no tag.
func (e *extractor) literal() {
	if e.skip == "" {
		e.put('<')
	}
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// body reads a tag up to its >, which may stand in quotes before. It returns the beginning of long ones.
func (e *extractor) body() (string, error) {
	var b strings.Builder
	quote, last := byte(0), byte(0)
	for {
		c, err := e.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return b.String() + " ", nil
		case err != nil:
			return "", err
		case quote == 0 && c == '>':
			if b.Len() == maxTag && last == '/' {
				return b.String()[:maxTag-1] + "/", nil
			}
			return b.String(), nil
		case quote == 0 && (c == '"' || c == '\'') && last == '=':
			quote = c
		case c == quote:
			quote = 0
		}
		if last = c; b.Len() < maxTag {
			b.WriteByte(c)
		}
	}
}

// past reads up to the end of a comment or a declaration.
func (e *extractor) past(end string) error {
	at := 0
	for at < len(end) {
		c, err := e.r.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case c == end[at]:
			at++
		case c == '-' && at == 2: // ---> ends a comment, too
		case c == end[0]:
			at = 1
		default:
			at = 0
		}
	}
	return nil
}

// cdata writes the text of a CDATA section of XHTML.
func (e *extractor) cdata() error {
	const begin, end = "![CDATA[", "]]>"
	if next, _ := e.r.Peek(len(begin)); string(next) != begin {
		return e.past(">")
	}
	_, _ = e.r.Discard(len(begin))
	for {
		next, err := e.r.Peek(len(end))
		if string(next) == end || len(next) == 0 {
			_, _ = e.r.Discard(len(next))
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if e.skip == "" {
			e.put(next[0])
		}
		_, _ = e.r.Discard(1)
	}
}

// element begins or ends an element.
func (e *extractor) element(name string, closes, empty bool) {
	if e.skip != "" {
		switch {
		case name != e.skip:
		case !closes && !empty:
			e.nested++
		case closes && e.nested > 0:
			e.nested--
		case closes:
			e.skip = ""
		}
		return
	}
	if skippedElements[name] {
		if !closes && !empty {
			e.skip, e.nested = name, 0
		}
		return
	}
	e.breaks = max(e.breaks, breaks[name])
	switch {
	case name == "pre":
		e.pre = max(0, e.pre+map[bool]int{false: 1, true: -1}[closes])
	case name == "td" || name == "th":
		e.space = true
	case closes:
		if breaks[name] > 0 {
			e.pending = ""
		}
	case len(name) == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6':
		e.pending = fmt.Sprintf("%s ", strings.Repeat("#", int(name[1]-'0')))
	case name == "li":
		e.pending = "- "
	}
}
