package token

import (
	"hash/maphash"
	"math"
	"strings"
)

// kind is the type of a vocabulary entry. The values are those of GGUF's
// tokenizer.ggml.token_type.
type kind uint8

const (
	kindUnassigned kind = 0 // the tokenizer file skips this id
	kindNormal     kind = 1
	kindUnknown    kind = 2
	kindControl    kind = 3 // plain text never encodes to it
	kindUser       kind = 4 // matched in any text before the model runs
	kindUnused     kind = 5
	kindByte       kind = 6 // <0x41>: one byte of a character that no piece covers
)

// special reports whether the entry must not result from plain text.
func (k kind) special() bool { return k == kindControl || k == kindUnknown }

// vocabulary maps pieces to ids and ids to pieces. One string holds all pieces and one
// array holds the index, so a vocabulary of 150 000 pieces needs four allocations.
type vocabulary struct {
	text  string   // all pieces, concatenated by ascending id
	ends  []uint32 // [size+1] piece id is text[ends[id]:ends[id+1]]
	kinds []kind   // [size]
	slots []int32  // open-addressed hash index: id+1, or 0 for an empty slot
	seed  maphash.Seed
	// maxPiece is the length of the longest piece in bytes. lookup rejects longer
	// strings without hashing them.
	maxPiece int
}

// newVocabulary builds a vocabulary of size pieces. For an unassigned id, piece returns
// "".
func newVocabulary[T string | []byte](field string, size int, piece func(id int) T, kinds []kind) (*vocabulary, error) {
	total := 0
	for id := range size {
		total += len(piece(id))
	}
	if total > math.MaxUint32 || size > math.MaxInt32 {
		return nil, malformed(field, "%d pieces with %d bytes exceed the limits of a vocabulary (2^31 pieces, 4 GiB)", size, total)
	}
	v := &vocabulary{
		ends:  make([]uint32, size+1),
		kinds: kinds,
		slots: make([]int32, tableSize(size)),
		seed:  maphash.MakeSeed(),
	}
	var text strings.Builder
	text.Grow(total)
	for id := range size {
		p := piece(id)
		text.WriteString(string(p))
		v.ends[id+1] = uint32(text.Len())
		v.maxPiece = max(v.maxPiece, len(p))
	}
	v.text = text.String()
	for id := range size {
		if kinds[id] == kindUnassigned {
			continue
		}
		if other, ok := v.insert(int32(id)); !ok {
			return nil, malformed(field, "ids %d and %d have the same piece %q", other, id, v.piece(int32(id)))
		}
	}
	return v, nil
}

// tableSize returns a power of two of which n entries occupy less than two thirds.
func tableSize(n int) int {
	size := 16
	for size*2 < n*3 {
		size *= 2
	}
	return size
}

// size returns the highest id plus one.
func (v *vocabulary) size() int { return len(v.kinds) }

// has reports whether the vocabulary has an entry for id.
func (v *vocabulary) has(id int32) bool {
	return id >= 0 && int(id) < len(v.kinds) && v.kinds[id] != kindUnassigned
}

// piece returns the spelling of id. The caller checks that id is in range.
func (v *vocabulary) piece(id int32) string {
	return v.text[v.ends[id]:v.ends[id+1]]
}

// lookup returns the id of piece, or -1.
func (v *vocabulary) lookup(piece string) int32 {
	if len(piece) > v.maxPiece {
		return -1
	}
	mask := len(v.slots) - 1
	for at := int(maphash.String(v.seed, piece)) & mask; ; at = (at + 1) & mask {
		id := v.slots[at] - 1
		if id < 0 || v.piece(id) == piece {
			return id
		}
	}
}

// lookupPlain returns the id of piece, or -1 if piece is unknown or special. The models
// use it for plain text.
func (v *vocabulary) lookupPlain(piece string) int32 {
	id := v.lookup(piece)
	if id >= 0 && v.kinds[id].special() {
		return -1
	}
	return id
}

// insert adds the piece of id to the index. If an equal piece is already indexed,
// insert returns the id of that piece and false.
func (v *vocabulary) insert(id int32) (int32, bool) {
	piece := v.piece(id)
	mask := len(v.slots) - 1
	for at := int(maphash.String(v.seed, piece)) & mask; ; at = (at + 1) & mask {
		other := v.slots[at] - 1
		if other < 0 {
			v.slots[at] = id + 1
			return id, true
		}
		if v.piece(other) == piece {
			return other, false
		}
	}
}

// byteToken parses the spelling of a byte token such as "<0x41>".
func byteToken(piece string) (byte, bool) {
	if len(piece) != 6 || piece[:3] != "<0x" || piece[5] != '>' {
		return 0, false
	}
	high, ok1 := hexDigit(piece[3])
	low, ok2 := hexDigit(piece[4])
	return high<<4 | low, ok1 && ok2
}

// hexDigit returns the value of a hexadecimal digit.
func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// byteIDs maps each byte to the id of its token, or to -1.
type byteIDs [256]int32

// byteTokens returns the ids of the tokens <0x00> to <0xFF>, with -1 for a missing
// token.
func byteTokens(v *vocabulary) (ids byteIDs) {
	for b := range ids {
		const hex = "0123456789ABCDEF"
		ids[b] = v.lookup("<0x" + string(hex[b>>4]) + string(hex[b&15]) + ">")
	}
	return ids
}

// cover reports whether every byte of text has a token.
func (ids *byteIDs) cover(text string) bool {
	for i := range len(text) {
		if ids[text[i]] < 0 {
			return false
		}
	}
	return true
}
