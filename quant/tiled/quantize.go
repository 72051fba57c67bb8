package tiled

import (
	"math"
	"unsafe"
)

// quantizeArgs are the arguments of a quantize kernel, which quantizes the groups
// of one token. Pointers are to the token's first group. Outputs of consecutive
// groups are width elements apart, codes width·GroupElems, halfStart and lanes 2·width. In
// halfStart, the second half of a group is width elements after the first; in lanes it is the
// next element.
type quantizeArgs struct {
	x         *float32 // [groups][GroupElems]
	codes     *int8
	apart     int // bytes between consecutive runs of pairElems codes of a group
	scale     *float32
	shift     *float32 // -scale·Σ codes
	start8    *int32   // startBits - 8·Σ codes
	start16   *int32   // startBits - 16·Σ codes
	start128  *int32   // startBits - 128·Σ codes
	halfStart *int32   // startBits - 32·Σ codes of a half
	lanes     *int32   // see Activations; nil: the path reads none
	groups    int
	width     int // tokens in the tile
}

// pairElems is the length of a run of one token's codes where the codes of two
// tokens are interleaved, see pairingPath.
const pairElems = 8

// Bit patterns of float32. Without the sign bit, the integer order of bit patterns
// is the order of magnitudes; infinity and then NaNs are largest. minMagnitudeBits
// is 2^-100. A group with a smaller maximum quantizes to zeros: 127 divided by a much
// smaller maximum overflows, and the products of such a group are negligible.
const (
	signMask         = 1 << 31
	infBits          = 0x7F800000
	minMagnitudeBits = (127 - 100) << 23
)

// quantize is the portable quantize kernel.
func (portable) quantize(a quantizeArgs) {
	x := unsafe.Slice(a.x, a.groups*GroupElems)
	for g := range a.groups {
		var codes [GroupElems]int8
		scale := quantizeGroup(&codes, x[g*GroupElems:][:GroupElems])
		a.put(g, &codes, scale)
	}
}

// clear writes a token whose activations are all zero.
func (a *quantizeArgs) clear() {
	var codes [GroupElems]int8
	for g := range a.groups {
		a.put(g, &codes, 0)
	}
}

// put writes the codes and scale of group g and the values derived from them.
func (a *quantizeArgs) put(g int, codes *[GroupElems]int8, scale float32) {
	at, end := g*a.width, (a.groups-1)*a.width+1 // end is the length of the slices
	for i := range GroupElems / pairElems {
		dst := step(a.codes, at*GroupElems+i*a.apart)
		*(*[pairElems]int8)(unsafe.Pointer(dst)) = [pairElems]int8(codes[i*pairElems:])
	}
	first, second := sum(codes[:GroupElems/2]), sum(codes[GroupElems/2:])
	unsafe.Slice(a.scale, end)[at] = scale
	unsafe.Slice(a.shift, end)[at] = float32(-first-second) * scale
	unsafe.Slice(a.start8, end)[at] = startBits - 8*(first+second)
	unsafe.Slice(a.start16, end)[at] = startBits - 16*(first+second)
	unsafe.Slice(a.start128, end)[at] = startBits - 128*(first+second)
	halfStart := unsafe.Slice(a.halfStart, 2*end+a.width-1)
	halfStart[2*at], halfStart[2*at+a.width] = startBits-halfZero*first, startBits-halfZero*second
	if a.lanes != nil {
		lanes := unsafe.Slice(a.lanes, 2*end)
		lanes[2*at], lanes[2*at+1] = lanesOf(codes[:GroupElems/2]), lanesOf(codes[GroupElems/2:])
	}
}

// quantizeGroup quantizes a group and returns its scale. If an element is infinite
// or NaN, so is the scale, and dst stays unchanged.
func quantizeGroup(dst *[GroupElems]int8, x []float32 /* [GroupElems] */) float32 {
	var bits uint32
	for _, v := range x {
		bits = max(bits, math.Float32bits(v)&^signMask)
	}
	if bits < minMagnitudeBits {
		return 0
	}
	most := math.Float32frombits(bits)
	if bits >= infBits {
		return most / 127
	}
	inverse := 127 / most
	for i, v := range x {
		dst[i] = int8(math.RoundToEven(float64(v * inverse)))
	}
	return most / 127
}

// lanesOf returns halfZero·Σ codes in two 16-bit lanes, as VPMADDUBSW adds products: of the first and
// the second two elements of each four.
func lanesOf(codes []int8 /* of a half */) int32 {
	var low, high int16
	for i := 0; i < len(codes); i += laneBytes {
		low += int16(codes[i]) + int16(codes[i+1])
		high += int16(codes[i+2]) + int16(codes[i+3])
	}
	return int32(uint32(uint16(halfZero*low)) | uint32(uint16(halfZero*high))<<16)
}

func sum(codes []int8) (n int32) {
	for _, c := range codes {
		n += int32(c)
	}
	return n
}
