package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

// groupElems is the elements of a block in the quantized formats that
// QuantizeRow writes.
const groupElems = 32

// blockWriters round one block of the quantized formats that QuantizeRow writes.
// weight says how much the error of each element counts.
var blockWriters = [numTypes]func(dst []byte, x, weight *block){
	Q8_0:   func(dst []byte, x, _ *block) { quantizeQ8_0(dst, x) },
	Q4_1:   quantizeQ4_1,
	Q4_0:   func(dst []byte, x, weight *block) { evenCodes.quantize(dst, x, weight) },
	IQ4_NL: func(dst []byte, x, weight *block) { iq4Codes.quantize(dst, x, weight) },
	NF4:    func(dst []byte, x, weight *block) { nf4Codes.quantize(dst, x, weight) },
}

// block is what a block's elements are, or a number for each.
type block [groupElems]float32

// allEqual are the weights of elements that all count the same.
var allEqual = func() (b block) {
	for i := range b {
		b[i] = 1
	}
	return b
}()

// QuantizeRow rounds a row of floats to another format: BF16, Q8_0, which keeps
// 8 bits of each element, or one with 4 bits: Q4_1, which has an offset as well
// as a scale for each 32 elements, Q4_0, IQ4_NL and NF4, which have a scale.
//
// importance, which may be nil, has a weight for each element: what its squared
// error counts when the scale of its block of 4-bit codes is chosen. It is at
// least 0 and finite.
func QuantizeRow(t Type, dst []byte, src, importance []float32 /* [cols] */) error {
	size, err := t.RowBytes(len(src))
	switch {
	case err != nil:
		return err
	case len(dst) < size:
		return fmt.Errorf("quant: %d bytes for a %s row of %d elements", len(dst), t, len(src))
	case importance != nil && len(importance) != len(src):
		return fmt.Errorf("quant: %d weights for a row of %d elements", len(importance), len(src))
	case t == BF16:
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(v))
		}
		return nil
	}
	write := blockWriters[t]
	if write == nil {
		return fmt.Errorf("quant: rows cannot be quantized to %s", t)
	}
	n := t.BlockBytes()
	weight := &allEqual
	for b := range len(src) / groupElems {
		if importance != nil {
			weight = (*block)(importance[b*groupElems:])
		}
		write(dst[b*n:(b+1)*n], (*block)(src[b*groupElems:]), weight)
	}
	return nil
}

// CanQuantize reports whether QuantizeRow writes t.
func CanQuantize(t Type) bool { return t == BF16 || (t.Valid() && blockWriters[t] != nil) }

// quantizeQ8_0 maps the largest magnitude to 127.
func quantizeQ8_0(dst []byte /* [34] */, x *block) {
	half := halfOf(largest(x) / 127)
	binary.LittleEndian.PutUint16(dst, half)
	inverse := inverseOf(F16ToF32(half))
	for i, v := range x {
		dst[2+i] = byte(int8(clampRound(v*inverse, -127, 127)))
	}
}

// largest returns the largest magnitude.
func largest(x *block) (most float32) {
	for _, v := range x {
		most = max(most, float32(math.Abs(float64(v))))
	}
	return most
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
func clampRound(v, low, high float32) int32 {
	if !(v > low) {
		v = low
	}
	if v > high {
		v = high
	}
	// The sum has its last bit at the ones, and rounds as float32 does.
	const magic = 0x1.8p23
	return int32(math.Float32bits(v+magic)) - int32(math.Float32bits(magic))
}

// QuantizeRowPerRow rounds a row to Q8_0 with one scale for all of its blocks:
// the form of devices that sum the products of a whole row in integers.
func QuantizeRowPerRow(dst []byte, src []float32 /* [cols] */) error {
	size, err := Q8_0.RowBytes(len(src))
	if err != nil {
		return err
	}
	if len(dst) < size {
		return fmt.Errorf("quant: %d bytes for a %s row of %d elements", len(dst), Q8_0, len(src))
	}
	half := halfOf(math.Float32frombits(active.largestBits(src)) / 127)
	inverse := inverseOf(F16ToF32(half))
	n := Q8_0.BlockBytes()
	for b := range len(src) / groupElems {
		block := dst[b*n : (b+1)*n]
		binary.LittleEndian.PutUint16(block, half)
		for i, v := range src[b*groupElems:][:groupElems] {
			block[2+i] = byte(int8(clampRound(float32(v*inverse), -127, 127)))
		}
	}
	return nil
}
