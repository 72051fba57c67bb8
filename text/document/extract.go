package document

import (
	"fmt"
	"io"
)

// Source is the bytes of a document.
type Source struct {
	Name string // for hints, and for its ending
	Data io.ReaderAt
	Size int64
}

// Kind is what a document is.
type Kind int

// The kinds of documents.
const (
	Plain   Kind = iota // UTF-8, also Markdown: its bytes are its text
	Encoded             // text in another encoding
	HTML
	EPUB
)

// KindOf recognizes a document by its first bytes, and by its name if these tell nothing. It returns a
// *[Refused] for what is no text.
func KindOf(s Source) (Kind, error) {
	head := make([]byte, min(headBytes, s.Size))
	if _, err := s.Data.ReadAt(head, 0); err != nil && err != io.EOF {
		return Plain, fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := Check(head, s.Name); err != nil {
		return Plain, err
	}
	switch {
	case isEPUB(head) && len(head) > 2 && head[0] == 'P':
		return EPUB, nil
	case isHTML(head, s.Name):
		return HTML, nil
	case encodingOf(head) == wideUTF32:
		return Plain, &Refused{What: "UTF-32", Hint: "iconv -f UTF-32 -t UTF-8 " + quoteName(s.Name) + " converts it"}
	case encodingOf(head) != plainText:
		return Encoded, nil
	}
	return Plain, nil
}

// Extract writes the text of a document to w.
func Extract(w io.Writer, s Source) error {
	kind, err := KindOf(s)
	if err != nil {
		return err
	}
	switch kind {
	case EPUB:
		return extractEPUB(w, s)
	case HTML:
		return extractHTML(w, text(s))
	}
	_, err = io.Copy(w, text(s))
	return err
}

// text returns the characters of a document as UTF-8.
func text(s Source) io.Reader {
	head := make([]byte, min(encodingHead, s.Size))
	_, _ = s.Data.ReadAt(head, 0) // reading all of it reports the error
	return decode(io.NewSectionReader(s.Data, 0, s.Size), encodingOf(head))
}
