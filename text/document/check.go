package document

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// ErrNotText reports that a document is no text.
var ErrNotText = errors.New("not text")

// Refused is the error for what is no text. It wraps ErrNotText.
type Refused struct {
	What string // what it is
	Hint string // the command that makes text of it
}

func (r *Refused) Error() string {
	return fmt.Sprintf("this is %s, %v: %s", r.What, ErrNotText, r.Hint)
}

// Unwrap returns ErrNotText.
func (r *Refused) Unwrap() error { return ErrNotText }

// headBytes is how much of a document Check looks at.
const headBytes = 8 << 10

// signature is how files of a kind begin.
type signature struct {
	begins string
	what   string
	hint   string // with %s for the file's name
}

// signatures lists what people take for text. More specific ones come first.
var signatures = []signature{
	{"%PDF-", "a PDF file", "pdftotext -layout %s - | llmrun summarize -"},
	{"{\\rtf", "an RTF file", "pandoc -t plain %s | llmrun summarize -"},
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office file", "soffice --headless --convert-to txt:Text %s"},
	{"\x1f\x8b", "a gzip file", "gzip -dc %s | llmrun summarize -"},
	{"BZh", "a bzip2 file", "bzip2 -dc %s | llmrun summarize -"},
	{"\xfd7zXZ\x00", "an xz file", "xz -dc %s | llmrun summarize -"},
	{"\x28\xb5\x2f\xfd", "a zstd file", "zstd -dc %s | llmrun summarize -"},
	{"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it and name the files"},
	{"Rar!", "a RAR archive", "unpack it and name the files"},
	{"\x89PNG", "a picture", "tesseract %s - | llmrun summarize -"},
	{"\xff\xd8\xff", "a picture", "tesseract %s - | llmrun summarize -"},
	{"GIF8", "a picture", "tesseract %s - | llmrun summarize -"},
	{"AT&TFORM", "a DjVu file", "djvutxt %s | llmrun summarize -"},
	{"BOOKMOBI", "a Mobipocket book", "ebook-convert %s book.epub"},
	{"GGUF", "a model", "-m takes models"},
	{"SQLite format 3", "a database", "export what is to be read as text"},
	{"\x7fELF", "a program", "name a text"},
	{"OggS", "a recording", "transcribe it first"},
	{"ID3", "a recording", "transcribe it first"},
	{"RIFF", "a recording", "transcribe it first"},
}

// Check returns a *Refused if a document that begins with head is no text, an EPUB or HTML. name is its name,
// for the hint.
func Check(head []byte, name string) error {
	head = head[:min(len(head), headBytes)]
	quoted := quoteName(name)
	refuse := func(what, hint string) error {
		return &Refused{What: what, Hint: strings.ReplaceAll(hint, "%s", quoted)}
	}
	for _, s := range signatures {
		if bytes.HasPrefix(head, []byte(s.begins)) {
			return refuse(s.what, s.hint)
		}
	}
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return checkZip(head, name, refuse)
	}
	if encodingOf(head) != plainText { // a byte order mark: the text is converted
		return nil
	}
	if isBase64(head) {
		return refuse("base64", "base64 -d %s | llmrun summarize -")
	}
	return nil
}

// checkZip refuses archives other than EPUB.
func checkZip(head []byte, name string, refuse func(what, hint string) error) error {
	ending := strings.ToLower(path.Ext(name))
	switch {
	case isEPUB(head):
		return nil
	case bytes.Contains(head, []byte("mimetypeapplication/vnd.oasis.opendocument")):
		return refuse("an OpenDocument file", "pandoc -t plain %s | llmrun summarize -, or soffice --headless --convert-to txt:Text %s")
	case ending == ".xlsx" || bytes.Contains(head, []byte("xl/")):
		return refuse("an Excel file", "soffice --headless --convert-to csv %s")
	case ending == ".pptx" || bytes.Contains(head, []byte("ppt/")):
		return refuse("a PowerPoint file", "soffice --headless --convert-to pdf %s, and pdftotext")
	case ending == ".docx" || bytes.Contains(head, []byte("word/")) || bytes.Contains(head, []byte("[Content_Types].xml")):
		return refuse("a Word file", "pandoc -t plain %s | llmrun summarize -, or soffice --headless --convert-to txt:Text %s")
	}
	return refuse("a zip archive", "unzip %s, and name the files")
}

// quoteName returns a name for a shell command.
func quoteName(name string) string {
	if name == "" || name == "-" {
		return "FILE"
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/+", r)
	}
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 && name[0] != '-' {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// isBase64 reports whether a text has only long lines of base64.
func isBase64(head []byte) bool {
	text := bytes.TrimSpace(head)
	if len(text) < 256 {
		return false
	}
	mixed := 0 // bits: lower case, upper case, digit
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "=\r\n")
		for _, c := range line {
			switch {
			case c >= 'a' && c <= 'z':
				mixed |= 1
			case c >= 'A' && c <= 'Z':
				mixed |= 2
			case c >= '0' && c <= '9':
				mixed |= 4
			case c == '+', c == '/', c == '-', c == '_':
			default:
				return false // a space, above all
			}
		}
	}
	return mixed == 7
}

// checkText refuses bytes of a text that are none. last: the text ends behind them.
func checkText(text []byte, off int64, last bool) error {
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return &Refused{What: fmt.Sprintf("binary (a zero byte at offset %d)", off+int64(at)), Hint: "name a text"}
	}
	checked := text
	if !last {
		checked = text[:len(text)-incomplete(text)]
	}
	for at := 0; at < len(checked); {
		c, n := utf8.DecodeRune(checked[at:])
		if c == utf8.RuneError && n <= 1 {
			return notUTF8(checked[at], off+int64(at))
		}
		at += n
	}
	return nil
}
