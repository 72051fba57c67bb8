package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
)

// isEPUB reports whether a zip archive begins as an EPUB does.
func isEPUB(head []byte) bool { return bytes.Contains(head, []byte("mimetypeapplication/epub+zip")) }

const (
	// maxPackage limits the list of an EPUB's chapters.
	maxPackage = 4 << 20
	// maxChapters limits their number, and maxChapter the length of each: a small archive can hold a text of
	// any length.
	maxChapters = 20000
	maxChapter  = 64 << 20
)

// extractEPUB writes the text of an EPUB's chapters to w, in the order in which they are read.
func extractEPUB(w io.Writer, s Source) error {
	archive, err := zip.NewReader(s.Data, s.Size)
	if err != nil {
		return fmt.Errorf("%s: the EPUB is damaged: %w", s.Name, err)
	}
	files := make(map[string]*zip.File, len(archive.File))
	for _, f := range archive.File {
		files[f.Name] = f
	}
	var container struct {
		Roots []struct {
			Path string `xml:"full-path,attr"`
		} `xml:"rootfiles>rootfile"`
	}
	if err := readXML(files["META-INF/container.xml"], &container); err != nil || len(container.Roots) == 0 {
		return fmt.Errorf("%s: the EPUB has no list of its contents (META-INF/container.xml): %w", s.Name, orDamaged(err))
	}
	var contents struct {
		Items []struct {
			ID   string `xml:"id,attr"`
			Href string `xml:"href,attr"`
			Type string `xml:"media-type,attr"`
		} `xml:"manifest>item"`
		Spine []struct {
			ID string `xml:"idref,attr"`
		} `xml:"spine>itemref"`
	}
	root := container.Roots[0].Path
	if err := readXML(files[root], &contents); err != nil {
		return fmt.Errorf("%s: the EPUB's list of chapters, %.80q: %w", s.Name, root, err)
	}
	href := make(map[string]string, len(contents.Items))
	for _, item := range contents.Items {
		if strings.Contains(item.Type, "html") {
			href[item.ID] = path.Join(path.Dir(root), unescape(item.Href))
		}
	}
	for i, chapter := range contents.Spine {
		name, isText := href[chapter.ID]
		switch {
		case !isText:
			continue
		case i == maxChapters:
			return fmt.Errorf("%s: the EPUB has more than %d chapters", s.Name, maxChapters)
		}
		if err := extractChapter(w, files[name]); err != nil {
			return fmt.Errorf("%s: chapter %.80q of the EPUB: %w", s.Name, name, err)
		}
	}
	return nil
}

// extractChapter writes the text of one file of an EPUB.
func extractChapter(w io.Writer, f *zip.File) error {
	if f == nil {
		return fmt.Errorf("it is missing: %w", io.ErrUnexpectedEOF)
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	limited := &io.LimitedReader{R: r, N: maxChapter}
	if err := extractHTML(w, limited); err != nil {
		return err
	}
	if limited.N == 0 {
		return fmt.Errorf("it has more than %d bytes", maxChapter)
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// readXML reads a small file of an EPUB.
func readXML(f *zip.File, to any) error {
	if f == nil {
		return fmt.Errorf("it is missing: %w", io.ErrUnexpectedEOF)
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	return xml.NewDecoder(io.LimitReader(r, maxPackage)).Decode(to)
}

// orDamaged returns err, or what else is wrong.
func orDamaged(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// unescape returns the path of a link.
func unescape(href string) string {
	href, _, _ = strings.Cut(href, "#")
	if decoded, err := url.PathUnescape(href); err == nil {
		return decoded
	}
	return href
}
