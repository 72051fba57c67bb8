package index

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"path"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/text/document"
)

const (
	// passageWords is the most words of a passage: about 250 tokens, which is what encoders read and what an answer
	// can quote.
	passageWords = 180
	passageBytes = 3 << 10
	// titleTimes is how often a word of the title or an alias counts in each passage of its note, and headingTimes one of
	// the headings above it, and of its tags.
	titleTimes   = 2
	headingTimes = 1
)

// KeyBytes is the length of the key of a passage.
const KeyBytes = 16

// Key stands for the text of a passage as an encoder reads it. Passages with equal texts have equal keys.
type Key [KeyBytes]byte

// Note is a note as the index keeps it.
type Note struct {
	Path     string // from the directory of the notes, with slashes
	Hash     [sha256.Size]byte
	Title    string // that the note gives itself, "" without one; see Named
	Tags     []string
	Passages []Passage
}

// Passage is a part of a note.
type Passage struct {
	Start, End int // bytes of the file
	Words      int
	Key        Key
	Terms      []Term // sorted by hash
}

// Term is a word of a passage.
type Term struct {
	Hash  uint64
	Times int
}

// MakeNote divides the text of a note into passages.
func MakeNote(name string, text []byte) (Note, error) {
	parsed := document.ParseNote(text)
	n := Note{Path: name, Hash: sha256.Sum256(text), Title: parsed.Title, Tags: parsed.Tags}
	s := splitter{}
	counts := map[uint64]int{}
	count := func(text string, times int) (words int) {
		s.terms([]byte(text), func(term uint64) { counts[term], words = counts[term]+times, words+times })
		return words
	}
	limits := document.Limits{Tokens: passageWords, Bytes: passageBytes}
	body := text[parsed.Body:]
	for part, err := range document.Split(bytes.NewReader(body), int64(len(body)), limits, countWords) {
		if err != nil {
			return Note{}, err
		}
		p := Passage{Start: parsed.Body + int(part.Start), End: parsed.Body + int(part.End)}
		p.Start, p.End = trim(text, p.Start, p.End)
		if p.Start == p.End {
			continue
		}
		clear(counts)
		p.Words = count(string(text[p.Start:p.End]), 1)
		if p.Words == 0 {
			continue
		}
		count(Named(n.Path, n.Title), titleTimes)
		for _, name := range parsed.Aliases {
			count(name, titleTimes)
		}
		for _, heading := range parsed.Path(p.Start) {
			count(heading, headingTimes)
		}
		for _, tag := range n.Tags {
			count(tag, headingTimes)
		}
		for hash, times := range counts {
			p.Terms = append(p.Terms, Term{hash, times})
		}
		slices.SortFunc(p.Terms, func(a, b Term) int { return cmp.Compare(a.Hash, b.Hash) })
		p.Key = KeyOf(EmbedText(n.Title, text[p.Start:p.End]))
		n.Passages = append(n.Passages, p)
	}
	return n, nil
}

// KeyOf returns the key of a passage as an encoder reads it.
func KeyOf(passage string) Key {
	sum := sha256.Sum256([]byte(passage))
	return Key(sum[:KeyBytes])
}

// Named returns the title of a note: the one that it gives itself, else the name of its file.
func Named(name, title string) string {
	return cmp.Or(title, strings.TrimSuffix(path.Base(name), path.Ext(name)))
}

// EmbedText returns a passage as an encoder reads it: below the title that its note gives itself. The name of the file is no
// part of it, so that a note that is renamed or copied keeps its vectors.
func EmbedText(title string, passage []byte) string {
	if title == "" {
		return string(passage)
	}
	return title + "\n" + string(passage)
}

// trim returns a range of a text without the white space at its ends.
func trim(text []byte, start, end int) (int, int) {
	start = end - len(bytes.TrimLeft(text[start:end], " \t\r\n"))
	return start, start + len(bytes.TrimRight(text[start:end], " \t\r\n"))
}
