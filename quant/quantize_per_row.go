package quant

import (
	"encoding/binary"
	"fmt"
	"math"
)

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
	half := F32ToF16(math.Float32frombits(active.largestBits(src)) / 127)
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
