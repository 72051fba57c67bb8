package tiled

import "encoding/binary"

// split reads the fields of one row's block from the model file's layout.
func (f *format) split(r *rowBlock, src []byte) {
	if f.low != nil {
		copy(r.code[:], src)
		r.half[0] = f.low.half(src)
		return
	}
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

// join writes the fields of a block in the model file's layout, the inverse of split.
func (f *format) join(r *rowBlock, dst []byte) {
	if f.low != nil {
		copy(dst, r.code[:])
		f.low.setHalf(dst, r.half[0])
		return
	}
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

// Each pair of functions below implements split and join for one block layout.

// nibbles unpacks 16 bytes to 32 codes. The low nibbles are elements 0 to 15.
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

// readHalves reads the leading 16-bit numbers of a block, all but the last rest
// bytes, and returns those bytes.
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

// split8 converts signed bytes to unsigned codes with zero point 128, because
// VPDPBUSD multiplies unsigned with signed bytes.
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

// splitPairs unpacks the 12 bytes of 8 scales and 8 mins of 6 bits in Q4_K and Q5_K.
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

// splitWide unpacks the nibbles of a 256-element block. Each run of 32 bytes holds
// 64 elements; the low nibbles are the first 32.
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

// splitQ5K reads a Q5_K block, in which bit s of high byte l is the fifth bit of
// element 32s+l.
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

// q6Place returns the byte index and shift of element i's low nibble in a Q6_K
// block, and those of its two high bits.
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

// splitXS reads an IQ4_XS block: the high bits of 8 scales, two bits each, their low
// nibbles, then 8 groups of 32 nibbles.
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

// splitZero reads an I4Z block: a scale, the zero point as a byte, then nibbles.
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
