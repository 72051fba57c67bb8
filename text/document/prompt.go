package document

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// DecodeString returns a text in memory as UTF-8: without a byte order mark, and converted from UTF-16. It returns a
// *[Refused] for what is no text. HTML stays as it is. name is the file's, for the hint.
func DecodeString(name, data string) (string, error) {
	s := Source{Name: name, Data: strings.NewReader(data), Size: int64(len(data))}
	kind, err := KindOf(s)
	if err != nil {
		return "", err
	}
	if kind == EPUB {
		return "", &Refused{What: "an EPUB book", Hint: "llmrun summarize " + quoteName(name)}
	}
	if encodingOf([]byte(data[:min(len(data), headBytes)])) == plainText {
		return data, checkString(data)
	}
	var b strings.Builder
	b.Grow(len(data)) // of Latin letters UTF-16 takes twice as much
	if _, err := io.Copy(&b, text(s)); err != nil {
		return "", err
	}
	return b.String(), checkString(b.String())
}

// checkString refuses a string that is no text in UTF-8.
func checkString(text string) error {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return &Refused{What: fmt.Sprintf("binary (a zero byte at offset %d)", at), Hint: "name a text"}
	}
	if utf8.ValidString(text) {
		return nil
	}
	for at, c := range text {
		if c == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[at:]); n == 1 {
				return notUTF8(text[at], int64(at))
			}
		}
	}
	return nil
}

// notUTF8 is the refusal of a byte that is in no character.
func notUTF8(c byte, off int64) error {
	return &Refused{What: fmt.Sprintf("no UTF-8 (a byte %#02x at offset %d)", c, off), Hint: "if it is in an older encoding, iconv -f WINDOWS-1252 -t UTF-8 FILE converts it"}
}
