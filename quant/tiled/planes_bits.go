package tiled

import (
	"encoding/binary"
	"unsafe"
)

const (
	pairPlane = 2 * planeBytes
	evenBits  = 0x1111111111111111 // the lowest bit of each nibble
	evenPairs = 0x3333333333333333 // the two lowest bits of each nibble
)

// joinKind is how the planes of codes are joined.
type joinKind uint8

const (
	joinBytes joinKind = iota // nibbles to bytes
	joinThree                 // three bits and one to nibbles
	joinTwo                   // two bits and two to nibbles
)

// leadStep divides the size of what joinArgs copies in front of a group.
const leadStep = 32

// joinArgs are the arguments of a kernel that joins the planes of groups.
type joinArgs struct {
	dst, high, low *byte // of the first group
	lead           int   // bytes in front of each group's codes that are copied from the high plane
	groups         int
	step           int // from a group of the low plane to the next; 0: all have the same low bits
}

func (portable) join(kind joinKind, a joinArgs) {
	size, part, low := nibbleGroup, 3*planeBytes, planeBytes
	switch kind {
	case joinBytes:
		size, part, low = 2*nibbleGroup, nibbleGroup, nibbleGroup
	case joinTwo:
		part, low = pairPlane, pairPlane
	}
	for g := range a.groups {
		dst := unsafe.Slice(step(a.dst, g*(a.lead+size)), a.lead+size)
		high := unsafe.Slice(step(a.high, g*(a.lead+part)), a.lead+part)
		copy(dst[:a.lead], high)
		joinHigh(dst[a.lead:], kind, high[a.lead:])
		joinLow(dst[a.lead:], kind, unsafe.Slice(step(a.low, g*a.step), low))
	}
}

// splitCodes writes the bits of a plane of a group's codes.
func splitCodes(out []byte, p Plane, codes []byte) {
	switch p {
	case High4, Low4:
		splitBytes(out, codes, p == High4)
	case High3:
		takePairs(out, codes, 1)
		takeBits(out[pairPlane:], codes, 3)
	case Low1:
		takeBits(out, codes, 0)
	case High2:
		takePairs(out, codes, 2)
	case Low2:
		takePairs(out, codes, 0)
	}
}

// joinHigh writes the codes of a group whose low bits are zero.
func joinHigh(codes []byte, kind joinKind, src []byte) {
	switch kind {
	case joinBytes:
		putHighBytes(codes, src)
	case joinThree:
		putPairs(codes, src, 1)
		orBitPlane(codes, src[pairPlane:], 3)
	case joinTwo:
		putPairs(codes, src, 2)
	}
}

// joinLow adds the low bits of a group.
func joinLow(codes []byte, kind joinKind, src []byte) {
	switch kind {
	case joinBytes:
		orLowBytes(codes, src)
	case joinThree:
		orBitPlane(codes, src, 0)
	case joinTwo:
		orPairs(codes, src)
	}
}

// The functions below process a group's codes of all rows of a tile as words of 8 bytes; codes of 4 bits
// are two in a byte.

func word(p []byte, at int) uint64       { return binary.LittleEndian.Uint64(p[at:]) }
func putWord(p []byte, at int, w uint64) { binary.LittleEndian.PutUint64(p[at:], w) }

// splitBytes writes the high or the low nibbles of 8-bit codes in the order of 4-bit codes.
func splitBytes(out, codes []byte, high bool) {
	out, codes = out[:nibbleGroup], codes[:2*nibbleGroup]
	for i := 0; i < nibbleGroup; i += 8 {
		first, second := word(codes, i), word(codes, i+nibbleGroup)
		if high {
			putWord(out, i, first>>4&lowNibbles|second&^lowNibbles)
		} else {
			putWord(out, i, first&lowNibbles|second&lowNibbles<<4)
		}
	}
}

// putHighBytes writes 8-bit codes with the given high nibbles.
func putHighBytes(codes, high []byte) {
	high, codes = high[:nibbleGroup], codes[:2*nibbleGroup]
	for i := 0; i < nibbleGroup; i += 8 {
		w := word(high, i)
		putWord(codes, i, w&lowNibbles<<4)
		putWord(codes, i+nibbleGroup, w&^lowNibbles)
	}
}

// orLowBytes adds low nibbles to 8-bit codes.
func orLowBytes(codes, low []byte) {
	low, codes = low[:nibbleGroup], codes[:2*nibbleGroup]
	for i := 0; i < nibbleGroup; i += 8 {
		w := word(low, i)
		putWord(codes, i, word(codes, i)|w&lowNibbles)
		putWord(codes, i+nibbleGroup, word(codes, i+nibbleGroup)|w>>4&lowNibbles)
	}
}

// takeBits writes one bit of each 4-bit code: a byte of out holds it of the same byte of four planes.
func takeBits(out, codes []byte, bit int) {
	out, codes = out[:planeBytes], codes[:nibbleGroup]
	for i := 0; i < planeBytes; i += 8 {
		var w uint64
		for p := range 4 {
			w |= word(codes, p*planeBytes+i) >> bit & evenBits << p
		}
		putWord(out, i, w)
	}
}

// orBitPlane is the inverse of takeBits for codes whose bit is zero.
func orBitPlane(codes, src []byte, bit int) {
	src, codes = src[:planeBytes], codes[:nibbleGroup]
	for i := 0; i < planeBytes; i += 8 {
		w := word(src, i)
		putWord(codes, i, word(codes, i)|w&evenBits<<bit)
		putWord(codes, planeBytes+i, word(codes, planeBytes+i)|w>>1&evenBits<<bit)
		putWord(codes, 2*planeBytes+i, word(codes, 2*planeBytes+i)|w>>2&evenBits<<bit)
		putWord(codes, 3*planeBytes+i, word(codes, 3*planeBytes+i)|w>>3&evenBits<<bit)
	}
}

// takePairs writes two bits of each 4-bit code: a byte of out holds them of the same byte of two planes.
func takePairs(out, codes []byte, bit int) {
	out, codes = out[:pairPlane], codes[:nibbleGroup]
	for i := 0; i < pairPlane; i += 8 {
		at := i/planeBytes*pairPlane + i%planeBytes
		putWord(out, i, word(codes, at)>>bit&evenPairs|word(codes, at+planeBytes)>>bit&evenPairs<<2)
	}
}

// putPairs is the inverse of takePairs. The other bits become zero.
func putPairs(codes, src []byte, bit int) {
	src, codes = src[:pairPlane], codes[:nibbleGroup]
	for i := 0; i < pairPlane; i += 8 {
		at := i/planeBytes*pairPlane + i%planeBytes
		w := word(src, i)
		putWord(codes, at, w&evenPairs<<bit)
		putWord(codes, at+planeBytes, w>>2&evenPairs<<bit)
	}
}

// orPairs adds the two low bits to codes whose low bits are zero.
func orPairs(codes, src []byte) {
	src, codes = src[:pairPlane], codes[:nibbleGroup]
	for i := 0; i < pairPlane; i += 8 {
		at := i/planeBytes*pairPlane + i%planeBytes
		w := word(src, i)
		putWord(codes, at, word(codes, at)|w&evenPairs)
		putWord(codes, at+planeBytes, word(codes, at+planeBytes)|w>>2&evenPairs)
	}
}
