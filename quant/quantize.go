package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// groupElems is the elements of a block in the formats that QuantizeRow writes.
const groupElems = 32

// QuantizeRow rounds a row of floats to a quantized format: Q8_0, which keeps
// 8 bits of each element, or Q4_1, which keeps 4 and has an offset as well as
// a scale for each 32 elements.
func QuantizeRow(t Type, dst []byte, src []float32 /* [cols] */) error {
	if t != Q8_0 && t != Q4_1 {
		return fmt.Errorf("quant: rows cannot be quantized to %s", t)
	}
	size, err := t.RowBytes(len(src))
	if err != nil {
		return err
	}
	if len(dst) < size {
		return fmt.Errorf("quant: %d bytes for a %s row of %d elements", len(dst), t, len(src))
	}
	block := quantizeQ8_0
	if t == Q4_1 {
		block = quantizeQ4_1
	}
	n := t.BlockBytes()
	for b := range len(src) / groupElems {
		block(dst[b*n:(b+1)*n], src[b*groupElems:(b+1)*groupElems])
	}
	return nil
}

// quantizeQ8_0 maps the largest magnitude to 127.
func quantizeQ8_0(dst []byte /* [34] */, x []float32 /* [32] */) {
	var most float32
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	half := F32ToF16(most / 127)
	binary.LittleEndian.PutUint16(dst, half)
	inverse := inverseOf(F16ToF32(half))
	for i, v := range x {
		dst[2+i] = byte(int8(clampRound(v*inverse, -127, 127)))
	}
}

// fitRounds is how often scale and offset of a 4-bit block are fitted to the
// codes that the last ones gave. The error hardly falls after that.
const fitRounds = 4

// quantizeQ4_1 begins with the scale that spans the block, then in turn fits
// scale and offset to the codes by least squares and rounds again, and keeps
// the best.
func quantizeQ4_1(dst []byte /* [20] */, x []float32 /* [32] */) {
	low, high := x[0], x[0]
	for _, v := range x {
		low, high = min(low, v), max(high, v)
	}
	scale, offset := (high-low)/15, low
	best := math.Inf(1)
	var codes [groupElems]uint8
	for range fitRounds {
		halfScale, halfOffset := F32ToF16(scale), F32ToF16(offset)
		err := codesQ4(&codes, x, F16ToF32(halfScale), F16ToF32(halfOffset))
		if err < best || math.IsInf(best, 1) {
			best = err
			binary.LittleEndian.PutUint16(dst, halfScale)
			binary.LittleEndian.PutUint16(dst[2:], halfOffset)
			for i := range 16 {
				dst[4+i] = codes[i] | codes[16+i]<<4
			}
		}
		scale, offset = fitLine(&codes, x, scale, offset)
	}
}

// codesQ4 rounds a block and returns the squared error.
func codesQ4(codes *[groupElems]uint8, x []float32, scale, offset float32) (err float64) {
	inverse := inverseOf(scale)
	for i, v := range x {
		c := clampRound((v-offset)*inverse, 0, 15)
		codes[i] = uint8(c)
		d := float64(v - offset - scale*c)
		err += d * d
	}
	return err
}

// fitLine returns the scale and offset with which the codes come closest to x,
// or those given when all codes are the same.
func fitLine(codes *[groupElems]uint8, x []float32, scale, offset float32) (float32, float32) {
	var sumC, sumCC, sumX, sumCX float64
	for i, v := range x {
		c := float64(codes[i])
		sumC += c
		sumCC += c * c
		sumX += float64(v)
		sumCX += c * float64(v)
	}
	det := groupElems*sumCC - sumC*sumC
	if det == 0 {
		return scale, offset
	}
	s := (groupElems*sumCX - sumC*sumX) / det
	return float32(s), float32((sumX - s*sumC) / groupElems)
}

// inverseOf is 1/v, and 0 for 0, so that a block of equal elements gives codes
// of 0.
func inverseOf(v float32) float32 {
	if v == 0 {
		return 0
	}
	return 1 / v
}

// clampRound rounds to the nearest integer, halves to even, within bounds; a
// NaN gives the lower bound.
func clampRound(v, low, high float32) float32 {
	r := float32(math.RoundToEven(float64(v)))
	if !(r > low) {
		return low
	}
	return min(r, high)
}
