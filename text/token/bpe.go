package token

import (
	"hash/maphash"
	"slices"
	"unicode/utf8"
)

// model encodes one word as token ids.
type model interface {
	encode(dst []int32, word string, work *scratch) []int32
}

// bpeModel implements byte-pair encoding: it starts with the smallest symbols and
// repeatedly joins the pair of neighbors with the lowest rank.
type bpeModel struct {
	vocab  *vocabulary
	merges *mergeTable
	// byteLevel selects bytes as the initial symbols. Otherwise they are characters.
	byteLevel bool
	// bytes[b] is the id of byte b, or -1. With byteLevel it is the id of the byte's
	// letter. Otherwise it is the byte token for characters that no piece covers.
	bytes byteIDs
	// virtual lists characters that are not pieces but occur inside pieces, so merges
	// may consume them. Their ids follow those of the vocabulary.
	virtual     []string
	virtualID   map[string]int32
	unknown     int32 // encodes uncovered characters; if -1 the model drops them
	fuseUnknown bool  // encode adjacent unknown characters as one token
	// ignoreMerges encodes a word that is a piece as that piece, even if the merges
	// would give another result.
	ignoreMerges bool
}

// maxWord is the maximum length of a word in bytes. encode splits longer words, which
// bounds its working memory. Only input with tens of millions of letters without a
// break reaches the limit.
const maxWord = 64 << 20

// encode appends the ids of a word. It caches the results for short words.
func (m *bpeModel) encode(dst []int32, word string, work *scratch) []int32 {
	if len(word) > maxCachedWord {
		splitLong(word, maxWord, func(part string) { dst = m.encodeWord(dst, part, work) })
		return dst
	}
	entry := work.cache.entry(word)
	if string(entry.word[:entry.length]) == word && entry.length > 0 {
		return append(dst, entry.ids[:entry.count]...)
	}
	before := len(dst)
	dst = m.encodeWord(dst, word, work)
	entry.store(word, dst[before:])
	return dst
}

// encodeWord appends the ids of a word without the cache.
func (m *bpeModel) encodeWord(dst []int32, word string, work *scratch) []int32 {
	if word == "" {
		return dst
	}
	if m.ignoreMerges {
		if id := m.lookupWord(word, work); id >= 0 {
			return append(dst, id)
		}
	}
	work.ids = m.symbols(work.ids[:0], word)
	ids := work.ids
	if len(ids) > 1 {
		ids = m.merges.apply(ids, &work.merge)
	}
	if m.virtual == nil {
		dst = append(dst, ids...)
	} else {
		dst = m.expandVirtual(dst, ids)
	}
	if cap(work.ids) > maxRetainedSymbols {
		work.ids = nil
	}
	return dst
}

// lookupWord returns the id of the piece that equals word, or -1.
func (m *bpeModel) lookupWord(word string, work *scratch) int32 {
	if len(word) > m.vocab.maxPiece {
		return -1
	}
	if !m.byteLevel {
		return m.vocab.lookupPlain(word)
	}
	work.letters = appendLetters(work.letters[:0], word)
	return m.vocab.lookupPlain(string(work.letters))
}

// symbols appends the initial symbols of a word: one id per byte or character.
func (m *bpeModel) symbols(ids []int32, word string) []int32 {
	ids = slices.Grow(ids, len(word))
	if m.byteLevel {
		for i := range len(word) {
			if id := m.bytes[word[i]]; id >= 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	fusing := false
	for at := 0; at < len(word); {
		_, width := utf8.DecodeRuneInString(word[at:])
		char := word[at : at+width]
		at += width
		id := m.lookupChar(char)
		if id < 0 && m.bytes.cover(char) {
			for i := range width {
				ids = append(ids, m.bytes[char[i]])
			}
			fusing = false
			continue
		}
		if id < 0 {
			if m.unknown >= 0 && !(fusing && m.fuseUnknown) {
				ids = append(ids, m.unknown)
			}
			fusing = true
			continue
		}
		ids = append(ids, id)
		fusing = false
	}
	return ids
}

// lookupChar returns the id of a character that is a piece or a virtual character, or
// -1.
func (m *bpeModel) lookupChar(char string) int32 {
	if id := m.vocab.lookupPlain(char); id >= 0 {
		return id
	}
	if id, ok := m.virtualID[char]; ok {
		return id
	}
	return -1
}

// expandVirtual replaces the remaining virtual characters with their bytes.
func (m *bpeModel) expandVirtual(dst, ids []int32) []int32 {
	for _, id := range ids {
		if int(id) < m.vocab.size() {
			dst = append(dst, id)
			continue
		}
		dst = m.appendByteTokens(dst, m.virtual[int(id)-m.vocab.size()])
	}
	return dst
}

// appendByteTokens appends the byte tokens of a character, or the unknown token if a
// byte token is missing.
func (m *bpeModel) appendByteTokens(dst []int32, char string) []int32 {
	if !m.bytes.cover(char) {
		if m.unknown >= 0 {
			dst = append(dst, m.unknown)
		}
		return dst
	}
	for i := range len(char) {
		dst = append(dst, m.bytes[char[i]])
	}
	return dst
}

// scratch is the working memory of one Encode call. The tokenizer reuses it.
type scratch struct {
	ids     []int32
	letters []byte
	merge   mergeWork
	paths   viterbi
	cache   wordCache
}

// wordCache caches the ids of short words, because most words of a text are
// repetitions. The cache is a fixed array; a new word replaces the entry in its slot.
type wordCache struct {
	slots []cacheEntry
	seed  maphash.Seed
}

const (
	// The sizes make a cacheEntry fit into a cache line of 64 bytes.
	maxCachedWord = 23 // maximum length in bytes
	maxCachedIDs  = 6
	cacheSlots    = 1 << 12
)

// cacheEntry fits into a cache line. An entry with length 0 is empty.
type cacheEntry struct {
	word   [maxCachedWord]byte
	length uint8
	count  uint8
	ids    [maxCachedIDs]int32
}

// entry returns the only entry that may hold the word.
func (c *wordCache) entry(word string) *cacheEntry {
	if c.slots == nil {
		c.slots = make([]cacheEntry, cacheSlots)
		c.seed = maphash.MakeSeed()
	}
	return &c.slots[maphash.String(c.seed, word)&(cacheSlots-1)]
}

// store replaces the entry if the ids fit.
func (e *cacheEntry) store(word string, ids []int32) {
	if len(ids) > maxCachedIDs {
		return
	}
	e.length, e.count = uint8(len(word)), uint8(len(ids))
	copy(e.word[:], word)
	copy(e.ids[:], ids)
}
