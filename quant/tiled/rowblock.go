package tiled

import "encoding/binary"

// split takes a block of a model file apart.
func (f *format) split(r *rowBlock, src []byte) {
	switch f.block {
	case nibbleBlock:
		split4(r, src)
	case fiveBitBlock:
		split5(r, src)
	case byteBlock:
		split8(r, src)
	case q4KBlock:
		splitQ4K(r, src)
	case q5KBlock:
		splitQ5K(r, src)
	case q6KBlock:
		splitQ6K(r, src)
	case xsBlock:
		splitXS(r, src)
	case mxBlock:
		splitMX(r, src)
	case zeroBlock:
		splitZero(r, src)
	}
}

// join is the inverse of split.
func (f *format) join(r *rowBlock, dst []byte) {
	switch f.block {
	case nibbleBlock:
		join4(r, dst)
	case fiveBitBlock:
		join5(r, dst)
	case byteBlock:
		join8(r, dst)
	case q4KBlock:
		joinQ4K(r, dst)
	case q5KBlock:
		joinQ5K(r, dst)
	case q6KBlock:
		joinQ6K(r, dst)
	case xsBlock:
		joinXS(r, dst)
	case mxBlock:
		joinMX(r, dst)
	case zeroBlock:
		joinZero(r, dst)
	}
}

// Each pair of functions below takes a block of one model-file format apart
// and puts it together again.

// nibbles spreads the 32 codes of 16 bytes: low nibbles first.
func nibbles(code []uint8 /* [32] */, src []byte /* [16] */) {
	for i, b := range src[:16] {
		code[i], code[16+i] = b&15, b>>4
	}
}

func joinNibbles(dst []byte /* [16] */, code []uint8 /* [32] */) {
	for i := range dst[:16] {
		dst[i] = code[i]&15 | code[16+i]<<4
	}
}

// readHalves reads the 16-bit numbers in front of a block and returns the rest.
// How many there are follows from the size of the rest.
func (r *rowBlock) readHalves(src []byte, rest int) []byte {
	for i := range (len(src) - rest) / 2 {
		r.half[i] = binary.LittleEndian.Uint16(src[2*i:])
	}
	return src[len(src)-rest:]
}

func (r *rowBlock) writeHalves(dst []byte, rest int) []byte {
	for i := range (len(dst) - rest) / 2 {
		binary.LittleEndian.PutUint16(dst[2*i:], r.half[i])
	}
	return dst[len(dst)-rest:]
}

func split4(r *rowBlock, src []byte) { nibbles(r.code[:], r.readHalves(src, 16)) }
func join4(r *rowBlock, dst []byte)  { joinNibbles(r.writeHalves(dst, 16), r.code[:]) }

func split5(r *rowBlock, src []byte) {
	src = r.readHalves(src, 20)
	high := binary.LittleEndian.Uint32(src)
	nibbles(r.code[:], src[4:])
	for i := range 32 {
		r.code[i] |= uint8(high>>i&1) << 4
	}
}

func join5(r *rowBlock, dst []byte) {
	dst = r.writeHalves(dst, 20)
	var high uint32
	for i := range 32 {
		high |= uint32(r.code[i]>>4) << i
	}
	binary.LittleEndian.PutUint32(dst, high)
	joinNibbles(dst[4:], r.code[:])
}

// Signed bytes become codes with a zero of 128, because the instructions want
// one of the two factors unsigned.
func split8(r *rowBlock, src []byte) {
	for i, b := range r.readHalves(src, 32) {
		r.code[i] = b ^ 0x80
	}
}

func join8(r *rowBlock, dst []byte) {
	dst = r.writeHalves(dst, 32)
	for i := range dst {
		dst[i] = r.code[i] ^ 0x80
	}
}

// splitPairs takes apart the 12 bytes in which the K formats keep 8 scales and
// 8 mins of 6 bits.
func (r *rowBlock) splitPairs(s []byte) {
	for j := range 4 {
		r.scale[j], r.min[j] = s[j]&63, s[j+4]&63
		r.scale[j+4] = s[j+8]&15 | s[j]>>6<<4
		r.min[j+4] = s[j+8]>>4 | s[j+4]>>6<<4
	}
}

func (r *rowBlock) joinPairs(s []byte) {
	for j := range 4 {
		s[j] = r.scale[j] | r.scale[j+4]>>4<<6
		s[j+4] = r.min[j] | r.min[j+4]>>4<<6
		s[j+8] = r.scale[j+4]&15 | r.min[j+4]<<4
	}
}

// splitWide spreads the nibbles of a 256-element block: each 32 bytes hold 64
// elements, the first half of them in the low nibbles.
func (r *rowBlock) splitWide(src []byte /* [128] */) {
	for i, b := range src[:128] {
		at := i/32*64 + i%32
		r.code[at], r.code[at+32] = b&15, b>>4
	}
}

func (r *rowBlock) joinWide(dst []byte /* [128] */) {
	for i := range dst[:128] {
		at := i/32*64 + i%32
		dst[i] = r.code[at]&15 | r.code[at+32]<<4
	}
}

func splitQ4K(r *rowBlock, src []byte) {
	src = r.readHalves(src, 140)
	r.splitPairs(src)
	r.splitWide(src[12:])
}

func joinQ4K(r *rowBlock, dst []byte) {
	dst = r.writeHalves(dst, 140)
	r.joinPairs(dst)
	r.joinWide(dst[12:])
}

// Bit s of high byte l is the fifth bit of element 32s+l.
func splitQ5K(r *rowBlock, src []byte) {
	src = r.readHalves(src, 172)
	r.splitPairs(src)
	r.splitWide(src[44:])
	for i := range 256 {
		r.code[i] |= src[12+i%32] >> (i / 32) & 1 << 4
	}
}

func joinQ5K(r *rowBlock, dst []byte) {
	dst = r.writeHalves(dst, 172)
	r.joinPairs(dst)
	clear(dst[12:44])
	for i := range 256 {
		dst[12+i%32] |= r.code[i] >> 4 << (i / 32)
	}
	r.joinWide(dst[44:])
}

// q6Place returns where element i of a Q6_K block lies: the byte and shift of
// its low nibble, and those of its two high bits.
func q6Place(i int) (low, lowShift, high, highShift int) {
	half, quarter, l := i/128, i%128/32, i%32
	return half*64 + quarter%2*32 + l, quarter / 2 * 4, half*32 + l, quarter * 2
}

func splitQ6K(r *rowBlock, src []byte) {
	for i := range 256 {
		low, ls, high, hs := q6Place(i)
		r.code[i] = src[low]>>ls&15 | src[128+high]>>hs&3<<4
	}
	copy(r.scale[:], src[192:208])
	r.half[0] = binary.LittleEndian.Uint16(src[208:])
}

func joinQ6K(r *rowBlock, dst []byte) {
	clear(dst[:192])
	for i := range 256 {
		low, ls, high, hs := q6Place(i)
		dst[low] |= r.code[i] & 15 << ls
		dst[128+high] |= r.code[i] >> 4 << hs
	}
	copy(dst[192:208], r.scale[:])
	binary.LittleEndian.PutUint16(dst[208:], r.half[0])
}

// IQ4_XS keeps the high bits of its 8 scales first, two bits each, then their
// low nibbles, then groups of 32 as the other 4-bit formats do.
func splitXS(r *rowBlock, src []byte) {
	r.half[0] = binary.LittleEndian.Uint16(src)
	high := binary.LittleEndian.Uint16(src[2:])
	for s := range 8 {
		r.scale[s] = src[4+s/2]>>(4*(s%2))&15 | uint8(high>>(2*s)&3)<<4
		nibbles(r.code[32*s:], src[8+16*s:])
	}
}

func joinXS(r *rowBlock, dst []byte) {
	binary.LittleEndian.PutUint16(dst, r.half[0])
	clear(dst[4:8])
	var high uint16
	for s := range 8 {
		dst[4+s/2] |= r.scale[s] & 15 << (4 * (s % 2))
		high |= uint16(r.scale[s]>>4) << (2 * s)
		joinNibbles(dst[8+16*s:8+16*(s+1)], r.code[32*s:])
	}
	binary.LittleEndian.PutUint16(dst[2:], high)
}

// I4Z has a byte, the row's zero, between its scale and its nibbles.
func splitZero(r *rowBlock, src []byte) {
	src = r.readHalves(src, 17)
	r.zero = src[0]
	nibbles(r.code[:], src[1:])
}

func joinZero(r *rowBlock, dst []byte) {
	dst = r.writeHalves(dst, 17)
	dst[0] = r.zero
	joinNibbles(dst[1:], r.code[:])
}

func splitMX(r *rowBlock, src []byte) {
	r.exponent = src[0]
	nibbles(r.code[:], src[1:])
}

func joinMX(r *rowBlock, dst []byte) {
	dst[0] = r.exponent
	joinNibbles(dst[1:], r.code[:])
}
