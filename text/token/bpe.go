package token

import (
	"hash/maphash"
)

// model encodes one word as token ids.
type model interface {
	encode(out *idBlocks, word string, work *scratch)
	// memory returns the working memory for a word of so many bytes, more than longWord.
	memory(length int) int64
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

// encode appends the ids of a word. It caches the results for short words.
func (m *bpeModel) encode(out *idBlocks, word string, work *scratch) {
	if len(word) > maxCachedWord {
		m.encodeWord(out, word, work)
		return
	}
	entry := work.cache.entry(word)
	if string(entry.word[:entry.length]) == word && entry.length > 0 {
		out.add(entry.ids[:entry.count]...)
		return
	}
	entry.store(word, m.encodeWord(out, word, work))
}

// memory returns the working memory for a word.
func (m *bpeModel) memory(length int) int64 { return partMemory(min(length, partSymbols)) }

// encodeWord appends the ids of a word without the cache. It returns the ids of a short word.
func (m *bpeModel) encodeWord(out *idBlocks, word string, work *scratch) []int32 {
	if word == "" {
		return nil
	}
	if m.ignoreMerges {
		if id := m.lookupWord(word, work); id >= 0 {
			work.ids = append(work.ids[:0], id)
			out.add(id)
			return work.ids
		}
	}
	if len(word) > partSymbols {
		m.encodeLong(out, word, work)
		return nil
	}
	symbols := symbolReader{model: m, word: word}
	work.ids = symbols.read(work.ids[:0], len(word))
	ids := work.ids
	if len(ids) > 1 {
		ids = m.merges.apply(ids, &work.merge)
	}
	return m.emit(out, ids, work)
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

// withoutVirtual replaces the remaining virtual characters with their bytes.
func (m *bpeModel) withoutVirtual(dst, ids []int32) []int32 {
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
	pair    []int32
	letters []byte
	merge   mergeWork
	part    []int32 // symbols of a part of a long word
	seam    []int32 // symbols of the token before that part
	// seamMerge is not merge, because the positions of a part's tokens are still in use.
	seamMerge mergeWork
	paths     viterbi
	cache     wordCache
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
