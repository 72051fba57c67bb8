package document

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// extract returns the text of a document.
func extract(t *testing.T, name, data string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, Extract(&b, Source{name, strings.NewReader(data), int64(len(data))}))
	return b.String()
}

// utf16Of returns a text in UTF-16 with a byte order mark.
func utf16Of(text string, big bool) string {
	var b []byte
	for _, c := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
		if big {
			b = append(b, byte(c>>8), byte(c))
		} else {
			b = append(b, byte(c), byte(c>>8))
		}
	}
	return string(b)
}

// TestEncodingsBecomeUTF8 reads the same text in each encoding.
func TestEncodingsBecomeUTF8(t *testing.T) {
	text := strings.Repeat("Grüße, 日本, 🦊.\n", 1000)
	for name, data := range map[string]string{"utf-8": text, "marked": "\ufeff" + text, "little": utf16Of(text, false), "big": utf16Of(text, true)} {
		require.Equal(t, text, extract(t, name, data), name)
	}
	latin := strings.Repeat("Written without a mark, and with one dash – here.\n", 100)
	for _, big := range []bool{false, true} {
		require.Equal(t, latin, extract(t, "unmarked", utf16Of(latin, big)[2:]))
	}
	for _, binary := range []string{strings.Repeat("\x01\x00\x00\x00", 100), "text\x00with a zero", strings.Repeat("a\x00b", 100)} {
		err := Extract(io.Discard, Source{"x", strings.NewReader(binary), int64(len(binary))})
		require.NoError(t, err) // Split refuses the zeros
		kind, err := KindOf(Source{"x", strings.NewReader(binary), int64(len(binary))})
		require.NoError(t, err)
		require.Equal(t, Plain, kind)
	}
	for _, e := range []struct{ data, want string }{
		{utf16Of("ab", false) + "x", "half a character"},
		{"\xff\xfe\x00\xd8a\x00", "half a character at offset 2"},
		{"\xff\xfe\x00\x00a\x00\x00\x00", "iconv -f UTF-32"},
	} {
		err := Extract(io.Discard, Source{"x", strings.NewReader(e.data), int64(len(e.data))})
		require.ErrorIs(t, err, ErrNotText)
		require.ErrorContains(t, err, e.want)
	}
	r := decode(iotest.OneByteReader(strings.NewReader(utf16Of(text, false))), littleUTF16)
	got, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

// TestHTML expects the text of HTML with the structure that matters for splitting.
func TestHTML(t *testing.T) {
	for html, want := range map[string]string{
		"<html><head><title>x</title><style>p > a {}</style></head><body><h1>One &amp; two</h1><p>A  <b>bold</b>\nword.</p><p>Next</body>": "# One & two\n\nA bold word.\n\nNext\n",
		"<ul><li>a<li>b</ul><ol><li>c</ol>":                               "- a\n- b\n- c\n",
		"a<br>b<br/>c":                                                    "a\nb\nc\n",
		"x<script>if (a < b) { '</div>' }</script>y":                      "xy\n",
		"x<!-- a > b -- c --->y<!---->z":                                  "xyz\n",
		"<pre>a\n  b\n\nc</pre>d":                                         "a\n  b\n\nc\n\nd\n",
		"1 < 2 && 3 > 2 &lt;p&gt; &#65;&#x42;&unknown; &copy":             "1 < 2 && 3 > 2 <p> AB&unknown; ©\n",
		"<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>": "a b\nc\n",
		`<a title="x > y" href='z'>link</a><img src="data:` + strings.Repeat("A", 9000) + `">after`: "linkafter\n",
		"<svg><text>no</text><svg></svg></svg>yes":                                                  "yes\n",
		"<p>unclosed <em>tag":           "unclosed tag\n",
		"<p>half a tag <a href=\"x":     "half a tag\n",
		"<![CDATA[a < b]]> c":           "a < b c\n",
		"<xhtml:p>name space</xhtml:p>": "name space\n",
		"a&nbsp;b":                      "a b\n",
	} {
		require.Equal(t, want, extract(t, "x.html", html), html)
	}
	require.Equal(t, "text\n", extract(t, "noname", "\n <!DOCTYPE html><p>text"))
	require.Equal(t, "<p>text", extract(t, "x.md", "<p>text"))
}

// epub returns an EPUB with chapters.
func epub(t *testing.T, change func(files map[string]string), chapters ...string) string {
	var manifest, spine strings.Builder
	files := map[string]string{}
	for i, c := range chapters {
		fmt.Fprintf(&manifest, `<item id="c%d" href="text/c%%20%d.xhtml" media-type="application/xhtml+xml"/>`, i, i)
		fmt.Fprintf(&spine, `<itemref idref="c%d"/>`, i)
		files[fmt.Sprintf("OEBPS/text/c %d.xhtml", i)] = c
	}
	files["META-INF/container.xml"] = `<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OEBPS/c.opf"/></rootfiles></container>`
	files["OEBPS/c.opf"] = `<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="css" href="a.css" media-type="text/css"/>` + manifest.String() + `</manifest><spine><itemref idref="css"/>` + spine.String() + `</spine></package>`
	if change != nil {
		change(files)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "mimetype", Method: zip.Store})
	require.NoError(t, err)
	_, _ = io.WriteString(w, "application/epub+zip")
	for name, text := range files {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, _ = io.WriteString(w, text)
	}
	require.NoError(t, z.Close())
	return b.String()
}

// TestEPUB expects the chapters in the order of the spine, and errors that say what is missing.
func TestEPUB(t *testing.T) {
	book := epub(t, nil, "<html><body><h1>One</h1><p>First.</p></body></html>", "<html><body><h1>Two</h1><p>Second.</p></body></html>")
	require.Equal(t, "# One\n\nFirst.\n\n# Two\n\nSecond.\n\n", extract(t, "book.epub", book))
	for want, change := range map[string]func(map[string]string){
		"META-INF/container.xml": func(f map[string]string) { delete(f, "META-INF/container.xml") },
		"list of chapters":       func(f map[string]string) { delete(f, "OEBPS/c.opf") },
		"chapter \"OEBPS/text/c 0.xhtml\" of the EPUB: it is missing": func(f map[string]string) { delete(f, "OEBPS/text/c 0.xhtml") },
	} {
		data := epub(t, change, "<p>x")
		err := Extract(io.Discard, Source{"book.epub", strings.NewReader(data), int64(len(data))})
		require.ErrorContains(t, err, want)
	}
	err := Extract(io.Discard, Source{"book.epub", strings.NewReader(book[:len(book)/2]), int64(len(book) / 2)})
	require.ErrorContains(t, err, "damaged")
}

// TestWhatIsNoText expects refusals with the command that helps.
func TestWhatIsNoText(t *testing.T) {
	zipped := func(names ...string) string {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range names {
			_, err := z.Create(name)
			require.NoError(t, err)
		}
		require.NoError(t, z.Close())
		return b.String()
	}
	random := make([]byte, 3000)
	for i := range random {
		random[i] = byte(i * i * 7)
	}
	encoded := base64.StdEncoding.EncodeToString(random)
	for _, c := range []struct{ name, data, what, hint string }{
		{"a.pdf", "%PDF-1.7\n", "a PDF file", "pdftotext -layout a.pdf -"},
		{"my paper's.pdf", "%PDF-1.7\n", "a PDF file", `pdftotext -layout 'my paper'\''s.pdf' -`},
		{"-x.pdf", "%PDF-1.7\n", "a PDF file", `pdftotext -layout '-x.pdf' -`},
		{"a.docx", zipped("[Content_Types].xml", "word/document.xml"), "a Word file", "pandoc -t plain a.docx"},
		{"a.xlsx", zipped("[Content_Types].xml", "xl/workbook.xml"), "an Excel file", "csv"},
		{"a.pptx", zipped("[Content_Types].xml", "ppt/presentation.xml"), "a PowerPoint file", "pdftotext"},
		{"a.odt", "PK\x03\x04" + strings.Repeat("\x00", 26) + "mimetypeapplication/vnd.oasis.opendocument.text", "an OpenDocument file", "pandoc"},
		{"a.zip", zipped("x"), "a zip archive", "unzip a.zip"},
		{"a.doc", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office file", "soffice"},
		{"a.rtf", "{\\rtf1", "an RTF file", "pandoc"},
		{"a.gz", "\x1f\x8b\x08", "a gzip file", "gzip -dc a.gz"},
		{"a.png", "\x89PNG\r\n", "a picture", "tesseract"},
		{"-", encoded, "base64", "base64 -d FILE"},
	} {
		_, err := KindOf(Source{c.name, strings.NewReader(c.data), int64(len(c.data))})
		var refused *Refused
		require.ErrorAs(t, err, &refused, c.name)
		require.Equal(t, c.what, refused.What)
		require.Contains(t, refused.Hint, c.hint)
		require.ErrorIs(t, err, ErrNotText)
	}
	for _, text := range []string{"", "x", "PK is a name", strings.Repeat("a long text without digits ", 30), strings.Repeat("ab12AB\n", 10)} {
		kind, err := KindOf(Source{"x", strings.NewReader(text), int64(len(text))})
		require.NoError(t, err)
		require.Equal(t, Plain, kind)
	}
}

// FuzzExtract reads any bytes as a document.
func FuzzExtract(f *testing.F) {
	f.Add("x.html", "<p>a<!-- b --><![CDATA[c]]>&amp;<script>")
	f.Add("x", "\xff\xfea\x00")
	f.Add("x.epub", "PK\x03\x04mimetypeapplication/epub+zip")
	f.Fuzz(func(_ *testing.T, name, data string) {
		_ = Extract(io.Discard, Source{name, strings.NewReader(data), int64(len(data))})
	})
}
