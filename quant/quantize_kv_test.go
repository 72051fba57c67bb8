package quant

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// quantizeCases returns inputs of many lengths and kinds.
func quantizeCases() map[string][]float32 {
	rng := rand.New(rand.NewPCG(30, 1))
	ramp := func(n int, f func(i int) float32) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	cases := map[string][]float32{
		"ties":          ramp(48, func(i int) float32 { return 127 - float32(i)*3.5 }),
		"ties of zeros": ramp(64, func(i int) float32 { return float32(i-32) + 0.5*float32(i%2) }),
		"equal":         ramp(32, func(int) float32 { return -3 }),
		"zeros":         make([]float32, 64),
		"minus zeros":   ramp(32, func(int) float32 { return minusZero }),
		"tiny":          ramp(32, func(i int) float32 { return float32(i) * 0x1p-110 }),
		"small":         ramp(32, func(i int) float32 { return float32(i) * 0x1p-103 }),
		"halves":        ramp(512, func(i int) float32 { return math.Float32frombits(uint32(i) * 0x00800123) }),
		"large":         ramp(80, func(i int) float32 { return float32(i-40) * 0x1p122 }),
		"largest":       ramp(32, func(int) float32 { return math.MaxFloat32 }),
		"wide": ramp(256, func(i int) float32 {
			return float32(math.Ldexp(1+float64(i%16)/16, -i/8)) * float32(1-i%3)
		}),
	}
	for n := 1; n <= 70; n++ {
		cases[fmt.Sprintf("%d", n)] = randomFloats(rng, n)
	}
	// All ties between two codes of 8-bit floats, after the largest float.
	ties := []float32{f8Largest}
	for code := range 126 {
		between := (F8ToF32(uint8(code)) + F8ToF32(uint8(code+1))) / 2
		ties = append(ties, between, -between, math.Nextafter32(between, 0), math.Nextafter32(between, 2))
	}
	cases["ties of floats"] = ties
	for i, bad := range []float32{float32(math.NaN()), inf32, -inf32} {
		for _, at := range []int{0, 20, 63, 66} {
			x := randomFloats(rng, 67)
			x[at] = bad
			cases[fmt.Sprintf("broken %d at %d", i, at)] = x
		}
	}
	return cases
}

// quantizedKV holds the results of all quantization functions for one input. Elements that the
// functions must not write hold a pattern.
type quantizedKV struct {
	keys, floats, halves []uint8
	pairs                []int8
	scales               [3]uint32
}

func quantizeAll(path kernels, x []float32) (r quantizedKV) {
	previous := active
	active = path
	defer func() { active = previous }()
	const step = 64
	r.keys, r.pairs = make([]uint8, (len(x)+3)/4*step), make([]int8, 2*len(x))
	r.floats, r.halves = make([]uint8, len(x)+1), make([]uint8, 2*len(x)+1)
	for i := range r.keys {
		r.keys[i] = 0x55
	}
	for i := range r.pairs {
		r.pairs[i] = 0x55
	}
	for i, scale := range []float32{
		QuantizeKey8(r.keys, step, x), QuantizePairs8(r.pairs, x), QuantizeF8(r.floats, x),
	} {
		if scale == scale { // NaNs may differ in their bits
			r.scales[i] = math.Float32bits(scale)
		}
	}
	RoundF16(r.halves, x)
	return r
}

// TestQuantizeKVMatchesTwin checks that every path quantizes keys and values to the same
// bits as the portable path.
func TestQuantizeKVMatchesTwin(t *testing.T) {
	for _, path := range supportedPaths() {
		t.Run(path.name(), func(t *testing.T) {
			for name, x := range quantizeCases() {
				require.True(t, reflect.DeepEqual(quantizeAll(portable{}, x), quantizeAll(path, x)), name)
			}
		})
	}
}

// TestQuantizeKVIsToTheNearest checks that no other code is nearer to an element than the
// chosen one.
func TestQuantizeKVIsToTheNearest(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		for name, x := range quantizeCases() {
			r := quantizeAll(active, x)
			key, value, float := math.Float32frombits(r.scales[0]), math.Float32frombits(r.scales[1]), math.Float32frombits(r.scales[2])
			require.Equal(t, key, value)
			for i, v := range x {
				code := int8(r.keys[i/4*64+i%4] ^ 0x80)
				require.Equal(t, code, r.pairs[2*i], name)
				require.EqualValues(t, 0x55, r.pairs[2*i+1], "a neighbour's code")
				if math.IsNaN(float64(key)) || math.IsInf(float64(key), 0) || key == 0 {
					require.Zero(t, code)
					require.Zero(t, r.floats[i])
					continue
				}
				require.InDelta(t, float64(v), float64(code)*float64(key), float64(key)*0.50001, "%s, element %d", name, i)
				off := func(code uint8) float64 { return math.Abs(float64(v) - float64(F8ToF32(code))*float64(float)) }
				least := off(r.floats[i]) * (1 - 1e-5)
				for other := range 256 {
					if other&0x7f != 0x7f && off(uint8(other)) < least {
						require.Failf(t, "another code is nearer", "%s, element %d: %g as %#x, not %#x", name, i, v, r.floats[i], other)
					}
				}
			}
		}
	})
}

// TestQuantizeKVRoundsTiesToEven checks ties with an inverse scale of 1, where they are
// exact.
func TestQuantizeKVRoundsTiesToEven(t *testing.T) {
	x := []float32{127, 0.5, 1.5, 2.5, -0.5, -1.5}
	var codes [16]int8
	require.EqualValues(t, 1, QuantizePairs8(codes[:], x))
	require.Equal(t, [16]int8{0: 127, 4: 2, 6: 2, 10: -2}, codes)
	var floats [4]uint8
	// 1.0625 is half way between 1 and 1.125; 1.1875 is half way between 1.125 and 1.25.
	require.EqualValues(t, 1, QuantizeF8(floats[:], []float32{1.75, 1.0625, 1.1875, -0x1p-18}))
	require.Equal(t, [4]uint8{0x7E, 0x78, 0x7A, 0x80}, floats)
}

// TestRoundF16MatchesF32ToF16 checks that RoundF16 rounds each element like F32ToF16.
func TestRoundF16MatchesF32ToF16(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		for name, x := range quantizeCases() {
			halves := make([]byte, 2*len(x))
			RoundF16(halves, x)
			for i, v := range x {
				got, want := binary.LittleEndian.Uint16(halves[2*i:]), F32ToF16(v)
				if v == v {
					require.Equal(t, want, got, "%s, element %d: %g", name, i, v)
				} else {
					require.True(t, math.IsNaN(float64(F16ToF32(got))))
				}
			}
		}
	})
}

func BenchmarkRound(b *testing.B) {
	x := randomFloats(rand.New(rand.NewPCG(31, 1)), 128)
	keys, pairs, halves := make([]uint8, 64*128/4), make([]int8, 256), make([]byte, 256)
	b.Run("key8", func(b *testing.B) {
		for b.Loop() {
			QuantizeKey8(keys, 64, x)
		}
	})
	b.Run("pairs8", func(b *testing.B) {
		for b.Loop() {
			QuantizePairs8(pairs, x)
		}
	})
	b.Run("f8", func(b *testing.B) {
		for b.Loop() {
			QuantizeF8(keys[:128], x)
		}
	})
	b.Run("f16", func(b *testing.B) {
		for b.Loop() {
			RoundF16(halves, x)
		}
	})
}
