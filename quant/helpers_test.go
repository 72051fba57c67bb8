package quant

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// randomFloats returns n normally distributed values.
func randomFloats(rng *rand.Rand, n int) []float32 {
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	return values
}

// randomRows returns a matrix of format t with random codes and scales of moderate size.
func randomRows(rng *rand.Rand, t Type, rows, cols int) []byte {
	rowBytes, err := t.RowBytes(cols)
	if err != nil {
		panic(err)
	}
	raw := make([]byte, rows*rowBytes)
	switch t {
	case F32:
		for i := 0; i < len(raw); i += 4 {
			binary.LittleEndian.PutUint32(raw[i:], math.Float32bits(float32(rng.NormFloat64())))
		}
	case F16, BF16:
		for i := 0; i < len(raw); i += 2 {
			putHalf(raw[i:], t, float32(rng.NormFloat64()))
		}
	default:
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		for block := 0; block < len(raw); block += t.BlockBytes() {
			randomScales(rng, t, raw[block:])
		}
	}
	return raw
}

func putHalf(dst []byte, t Type, f float32) {
	half := F32ToF16(f)
	if t == BF16 {
		half = F32ToBF16(f)
	}
	binary.LittleEndian.PutUint16(dst, half)
}

// scaleOffsets holds the byte offsets of the f16 scales in a block.
var scaleOffsets = map[Type][]int{
	Q4_0: {0}, Q4_1: {0, 2}, Q5_0: {0}, Q5_1: {0, 2}, Q8_0: {0},
	Q2_K: {80, 82}, Q3_K: {108}, Q4_K: {0, 2}, Q5_K: {0, 2}, Q6_K: {208}, IQ4_NL: {0}, IQ4_XS: {0},
}

func randomScales(rng *rand.Rand, t Type, block []byte) {
	if t == MXFP4 {
		block[0] = byte(118 + rng.IntN(8))
	}
	for _, offset := range scaleOffsets[t] {
		putHalf(block[offset:], F16, float32(rng.NormFloat64())/64)
	}
}

// forEachPath runs check on every path that this CPU supports, including the portable
// paths.
func forEachPath(t *testing.T, check func(t *testing.T)) {
	for _, path := range append(supportedPaths(), portable{fused}) {
		t.Run(path.name(), func(t *testing.T) {
			usePath(t, path)
			check(t)
		})
	}
}

// usePath makes path the active one until the test ends.
func usePath(tb testing.TB, path kernels) {
	previous := active
	active = path
	tb.Cleanup(func() { active = previous })
}
