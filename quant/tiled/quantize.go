package tiled

import (
	"math"
	"unsafe"
)

// quantizeArgs is what the rounding kernels read and write: one token's groups.
// Pointers are to the first group. Between a group and the next lie the other
// tokens of the tile, so that numbers are width apart, codes width·GroupElems
// and halfStart 2·width, with the second half width after the first.
type quantizeArgs struct {
	x         *float32 // [groups][GroupElems]
	codes     *int8
	apart     int // from pairElems of a group's codes to the next
	scale     *float32
	shift     *float32
	start8    *int32 // startBits - 8·Σ codes, and so on
	start16   *int32
	start128  *int32
	halfStart *int32
	groups    int
	width     int
}

// pairElems is how many elements of a token come before those of its neighbour where
// the two take turns.
const pairElems = 8

// Bits of float32 numbers; without the sign they are in the order of the values,
// with infinity and then the NaNs last. minMagnitudeBits are those of 2^-100, the
// smallest magnitude of a group that counts: dividing by much less would
// overflow, and products with less would be lost anyhow.
const (
	signMask         = 1 << 31
	infBits          = 0x7F800000
	minMagnitudeBits = (127 - 100) << 23
)

// round is the portable rounding kernel.
func (portable) quantize(a quantizeArgs) {
	x := unsafe.Slice(a.x, a.groups*GroupElems)
	for g := range a.groups {
		var codes [GroupElems]int8
		scale := quantizeGroup(&codes, x[g*GroupElems:][:GroupElems])
		a.put(g, &codes, scale)
	}
}

// clear sets a token to zeros.
func (a *quantizeArgs) clear() {
	var codes [GroupElems]int8
	for g := range a.groups {
		a.put(g, &codes, 0)
	}
}

// put writes a group with all that follows from its codes.
func (a *quantizeArgs) put(g int, codes *[GroupElems]int8, scale float32) {
	at, end := g*a.width, (a.groups-1)*a.width+1 // the last group's number ends the slices
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
}

// quantizeGroup rounds a group and returns the scale, which is infinite or a NaN
// where an element is.
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

func sum(codes []int8) (n int32) {
	for _, c := range codes {
		n += int32(c)
	}
	return n
}
