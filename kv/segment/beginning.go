package segment

import (
	"encoding/binary"
	"slices"

	"github.com/llmrun/llmrun/store"
)

// Beginning identifies the first page of a text, whatever the model and its settings.
type Beginning struct {
	Tokens int // of the page
	ID     ID
}

// beginningBytes is the size of an encoded Beginning: the number of tokens in 4 bytes, and the ID.
const beginningBytes = 4 + len(ID{})

// maxFormer limits the beginnings that a session remembers. A script that starts a conversation anew each hour needs
// half a year for that many.
const maxFormer = 4096

// beginning returns the beginning of a text, or false if it has no whole page and thus no segment.
func beginning(tokens []int32, page int) (Beginning, bool) {
	if page < 1 || len(tokens) < page {
		return Beginning{}, false
	}
	return Beginning{page, Next(ID{}, tokens[:page])}, true
}

// begins reports whether a text begins like b.
func (b Beginning) begins(tokens []int32) bool {
	own, ok := beginning(tokens, b.Tokens)
	return ok && own == b
}

// addFormer returns the beginnings that a session has had when before is replaced by now.
func addFormer(before, now *Manifest) []Beginning {
	former := before.Former
	if b, ok := beginning(before.Tokens, before.PageTokens); ok && !slices.Contains(former, b) {
		former = append(slices.Clip(former), b)
	}
	if b, ok := beginning(now.Tokens, now.PageTokens); ok { // it is found by its tokens
		former = slices.DeleteFunc(slices.Clone(former), func(f Beginning) bool { return f == b })
	}
	return former[max(0, len(former)-maxFormer):]
}

func appendBeginnings(b []byte, list []Beginning) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(list)))
	for _, f := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(f.Tokens))
		b = append(b, f.ID[:]...)
	}
	return b
}

// beginnings decodes what appendBeginnings wrote.
func (c *cursor) beginnings() []Beginning {
	list := make([]Beginning, c.count("former beginnings", beginningBytes))
	for i := range list {
		list[i].Tokens = int(c.uint32("former beginnings"))
		copy(list[i].ID[:], c.take("former beginnings", len(ID{})))
		if n := list[i].Tokens; c.err == nil && (n < 1 || n > maxPageTokens) {
			c.fail("former beginnings", "a page of %d tokens is not from 1 to %d", n, maxPageTokens)
		}
	}
	if c.err == nil && len(list) > maxFormer {
		c.err = refuser(c.path)(int64(c.at), "former beginnings", store.ErrFormat, "%d are more than %d", len(list), maxFormer)
	}
	return list
}
