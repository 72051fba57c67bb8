// Package gcm decrypts blocks of AES-256-GCM where they are, faster than crypto/cipher on x86
// processors, the more so the wider the registers are that they have AES for. It seals nothing. Package crypto/cipher is its
// twin: everything is sealed by it, tests compare both, and on other processors New returns nil.
package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"math/bits"
)

// The sizes of a key, a nonce, the additional data of a text, and a tag. The length of a text is a
// multiple of GroupBytes, at most MaxBytes.
const (
	KeyBytes   = 32
	NonceBytes = 12
	AboutBytes = 8
	TagBytes   = 16
	GroupBytes = 32 * blockBytes
	MaxBytes   = 8 * GroupBytes
)

const (
	blockBytes = aes.BlockSize
	rounds     = 14
)

// Opener decrypts with one key. Any goroutine may use it, each with its own Scratch.
type Opener struct {
	table table // the first field, to lie at a multiple of 32 bytes
	block cipher.Block
	path  path
}

// path is a way to decrypt, named by the width of its registers.
type path int

const (
	bits512 path = iota
	bits256
	bits128
)

// table is what openGroups needs of a key. Its offsets are in the assembly.
type table struct {
	keys   [rounds + 1][blockBytes]byte
	_      [blockBytes]byte
	powers [32][blockBytes]byte            // of the hash key, the 32nd first, multiplied by x, bytes reversed
	twice  [rounds + 1][2][blockBytes]byte // the keys, for 256-bit registers
	folded [32][blockBytes]byte            // powers whose lower half is the sum of both halves
}

// Scratch is the working memory of one call at a time.
type Scratch struct {
	counter, about, lengths, sum [blockBytes]byte
}

// New returns an Opener, or nil if this processor has no fast path.
func New(key *[KeyBytes]byte) *Opener {
	if len(paths) == 0 {
		return nil
	}
	return newOpener(key, paths[0])
}

func newOpener(key *[KeyBytes]byte, p path) *Opener {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a valid length
	}
	o := &Opener{block: block, path: p}
	o.table.expand(key)
	var hash [blockBytes]byte
	block.Encrypt(hash[:], hash[:])
	o.table.setPowers(&hash)
	return o
}

// Open decrypts src into dst, which may be the same memory, and reports whether the tag matches;
// if not, it clears dst. The lengths of both are the same multiple of GroupBytes.
func (o *Opener) Open(s *Scratch, dst, src []byte, nonce *[NonceBytes]byte, about *[AboutBytes]byte, tag *[TagBytes]byte) bool {
	if len(dst) != len(src) || len(src) == 0 || len(src)%GroupBytes != 0 || len(src) > MaxBytes {
		return false
	}
	copy(s.counter[:], nonce[:])
	copy(s.about[:], about[:])
	binary.BigEndian.PutUint64(s.lengths[:], 8*AboutBytes)
	binary.BigEndian.PutUint64(s.lengths[8:], 8*uint64(len(src)))
	o.path.open(&dst[0], &src[0], len(src)/GroupBytes, &o.table, &s.counter, &s.about, &s.lengths, &s.sum)
	if subtle.ConstantTimeCompare(s.sum[:], tag[:]) != 1 {
		clear(dst)
		return false
	}
	return true
}

// expand computes the round keys (FIPS 197, 5.2), with words in little-endian order.
func (t *table) expand(key *[KeyBytes]byte) {
	const words = KeyBytes / 4
	var w [4 * (rounds + 1)]uint32
	for i := range words {
		w[i] = binary.LittleEndian.Uint32(key[4*i:])
	}
	constant := uint32(1)
	for i := words; i < len(w); i++ {
		x := w[i-1]
		switch i % words {
		case 0:
			x = subWord(bits.RotateLeft32(x, -8)) ^ constant
			constant <<= 1
		case 4:
			x = subWord(x)
		}
		w[i] = w[i-words] ^ x
	}
	for i, x := range w {
		binary.LittleEndian.PutUint32(t.keys[i/4][i%4*4:], x)
	}
	for i, key := range t.keys {
		t.twice[i] = [2][blockBytes]byte{key, key}
	}
}

// element is an element of GF(2^128): bit 127-i is the coefficient of x^i, as in a block.
type element struct{ high, low uint64 }

// timesX multiplies an element by x.
func (e element) timesX() element {
	carry := -(e.low & 1) // x^128 = x^7 + x^2 + x + 1
	return element{e.high>>1 ^ carry&(0xe1<<56), e.low>>1 | e.high<<63}
}

// times multiplies two elements. It takes the same time for all.
func (e element) times(f element) (product element) {
	for i := range 128 {
		word := f.high
		if i >= 64 {
			word = f.low
		}
		take := -(word >> (63 - i%64) & 1)
		product.high ^= e.high & take
		product.low ^= e.low & take
		e = e.timesX()
	}
	return product
}

// setPowers sets the powers of a hash key.
func (t *table) setPowers(hash *[blockBytes]byte) {
	h := element{binary.BigEndian.Uint64(hash[:]), binary.BigEndian.Uint64(hash[8:])}
	power := h
	for i := len(t.powers) - 1; i >= 0; i-- {
		// In the order of openGroups a product is divided by x, so its factor is multiplied by x
		// there: the bits move up, and the highest comes back as the polynomial.
		up := -(power.high >> 63)
		low, high := power.low<<1, power.high<<1|power.low>>63
		binary.LittleEndian.PutUint64(t.powers[i][:], low^up&1)
		binary.LittleEndian.PutUint64(t.powers[i][8:], high^up&(0xc2<<56))
		binary.LittleEndian.PutUint64(t.folded[i][:], low^high^up&(0xc2<<56|1))
		power = power.times(h)
	}
}
