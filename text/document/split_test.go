package document

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// words counts the words of a text, as a tokenizer with one token for each would.
func words(text string) (int, error) { return len(strings.Fields(text)), nil }

// split returns the parts of a text, and checks that they follow each other and are within the limits.
func split(t *testing.T, text string, l Limits) (parts []Part, texts []string) {
	t.Helper()
	at := int64(0)
	for part, err := range Split(strings.NewReader(text), int64(len(text)), l, words) {
		require.NoError(t, err)
		require.Equal(t, at, part.Start)
		require.Greater(t, part.End, part.Start)
		n, _ := words(text[part.Start:part.End])
		require.LessOrEqual(t, n, l.Tokens)
		require.LessOrEqual(t, part.End-part.Start, int64(max(l.Bytes, minBytes)))
		at = part.End
		parts, texts = append(parts, part), append(texts, text[part.Start:part.End])
	}
	require.Equal(t, int64(len(text)), at)
	return parts, texts
}

// sentence returns a sentence of n words.
func sentence(r *rand.Rand, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "w%d", r.IntN(1000))
	}
	return b.String() + "."
}

// prose returns paragraphs of sentences.
func prose(r *rand.Rand, paragraphs int) string {
	var b strings.Builder
	for range paragraphs {
		for range 2 + r.IntN(4) {
			b.WriteString(sentence(r, 4+r.IntN(12)) + " ")
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

// TestPartsBeginAtTheBestPlace expects parts to begin at the heading, paragraph or sentence in their second half, in this
// order.
func TestPartsBeginAtTheBestPlace(t *testing.T) {
	r := testutil.Random(t)
	ten := func() string { return sentence(r, 10) }
	paragraph := func(n int) (text string) {
		for range n {
			text += ten() + " "
		}
		return text + "\n\n"
	}
	for _, c := range []struct{ name, first, second string }{
		{"heading", paragraph(3) + paragraph(3), "## Next\n\n" + paragraph(2) + paragraph(2)},
		{"underlined heading", paragraph(3) + paragraph(3), "Next\n====\n\n" + paragraph(2) + paragraph(2)},
		{"subject", paragraph(3) + paragraph(3), "Subject: Next\n\n" + paragraph(2) + paragraph(2)},
		{"rule", paragraph(3) + paragraph(3), "* * *\n\n" + paragraph(2) + paragraph(2)},
		{"paragraph", paragraph(6), paragraph(5) + paragraph(4)},
		{"sentence", ten() + " " + ten() + " " + ten() + " " + ten() + " " + ten() + " ", strings.Repeat("long ", 60) + "end. "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, texts := split(t, c.first+c.second+paragraph(9), Limits{100, 10000})
			require.Equal(t, c.first, texts[0])
		})
	}
}

// TestChaptersAreParts expects a part for each heading of the first level, but for a title that little text follows.
func TestChaptersAreParts(t *testing.T) {
	r := testutil.Random(t)
	book := "# Title\n\nBy somebody.\n\n"
	chapters := []string{}
	for i := range 4 {
		chapter := fmt.Sprintf("# Chapter %d\n\n%s", i, prose(r, 8))
		chapters = append(chapters, chapter)
		book += chapter
	}
	parts, texts := split(t, book, Limits{1000, 100000})
	require.Len(t, parts, 4)
	require.Equal(t, chapters[1:], texts[1:])
	require.Equal(t, "Title", parts[0].Heading)
	require.Equal(t, "Chapter 3", parts[3].Heading)

	code := "```\n" + strings.Repeat("# no heading\n", 100) + "```\n" + strings.Repeat("word ", 100)
	parts, _ = split(t, code, Limits{1000, 100000})
	require.Len(t, parts, 1)
	require.Empty(t, parts[0].Heading)
}

// TestAChangeKeepsOtherParts inserts a paragraph into a long text, and expects most parts to stay as they are.
func TestAChangeKeepsOtherParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // how many parts change depends on the text
	text := prose(r, 200)
	_, before := split(t, text, Limits{200, 10000})
	require.Greater(t, len(before), 20)
	for _, at := range []int{0, len(text) / 3, len(text) / 2} {
		at += strings.Index(text[at:], "\n\n") + 2
		_, after := split(t, text[:at]+"Something new happened here today.\n\n"+text[at:], Limits{200, 10000})
		fresh := 0
		for _, part := range after {
			if !slices.Contains(before, part) {
				fresh++
			}
		}
		require.LessOrEqual(t, fresh, 12, "of %d parts", len(after))
		require.Greater(t, fresh, 0)
	}
}

// TestAnyTextIsDivided divides texts without paragraphs, sentences, spaces or tokens.
func TestAnyTextIsDivided(t *testing.T) {
	r := testutil.Random(t)
	for name, text := range map[string]string{
		"empty":         "",
		"spaces":        strings.Repeat(" ", 5000),
		"line breaks":   strings.Repeat("\n", 5000),
		"one word":      strings.Repeat("x", 5000),
		"no spaces":     strings.Repeat("漢字かな", 2000),
		"one line":      strings.Repeat("word ", 3000),
		"short lines":   strings.Repeat("a b\n", 1000),
		"all headings":  strings.Repeat("# x\n", 1000),
		"prose":         prose(r, 30),
		"open fence":    "```\n" + prose(r, 30),
		"windows lines": strings.ReplaceAll(prose(r, 30), "\n", "\r\n"),
		"chinese":       strings.Repeat("他说了一句话。然后走了。", 500),
	} {
		t.Run(name, func(t *testing.T) {
			for _, l := range []Limits{{64, 512}, {100, 300}, {1000, 8000}} {
				_, texts := split(t, text, l)
				for _, part := range texts {
					require.True(t, strings.ToValidUTF8(part, "") == part, "a part ends within a character")
				}
			}
		})
	}
}

// TestSplitReportsErrors expects errors of the reader and the counter, and what is no text with its offset.
func TestSplitReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, err := range Split(strings.NewReader("some text"), 9, Limits{64, 512}, func(string) (int, error) { return 0, broken }) {
		require.ErrorIs(t, err, broken)
	}
	for text, want := range map[string]string{
		strings.Repeat("good ", 300) + "\x00":     "zero byte at offset 1500",
		strings.Repeat("good ", 300) + "\xff bad": "a byte 0xff at offset 1500",
		"caf\xe9": "iconv -f WINDOWS-1252",
	} {
		var last error
		for _, err := range Split(strings.NewReader(text), int64(len(text)), Limits{64, 512}, words) {
			last = err
		}
		require.ErrorIs(t, last, ErrNotText)
		require.ErrorContains(t, last, want)
	}
}

// FuzzSplit divides any text.
func FuzzSplit(f *testing.F) {
	f.Add("# A\n\nText. More text.\n\n## B\n", 64)
	f.Add("```\n# x\n", 70)
	f.Fuzz(func(t *testing.T, text string, tokens int) {
		text = strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "0")
		split(t, text, Limits{64 + max(0, tokens)%1000, 512})
	})
}
