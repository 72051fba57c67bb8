package quant

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// referenceRow holds a row that the reference quantizer wrote and the float32 values that
// the reference decoder computes from it.
type referenceRow struct {
	Type   string
	Source string
	Raw    []byte // whole blocks
	Values []byte // little-endian float32
}

func referenceRows(tb testing.TB) []referenceRow {
	var rows []referenceRow
	testutil.ReadJSON(tb, "testdata/rows.json", &rows)
	return rows
}

// requireBits fails unless got has exactly the bits of want. It treats all NaNs as equal.
func requireBits(tb testing.TB, want, got []float32, format string, args ...any) {
	tb.Helper()
	require.Len(tb, got, len(want))
	for i := range want {
		bothNaN := want[i] != want[i] && got[i] != got[i]
		if !bothNaN && math.Float32bits(want[i]) != math.Float32bits(got[i]) {
			tb.Fatalf(format+": element %d: want %g (%#08x), got %g (%#08x)",
				append(args, i, want[i], math.Float32bits(want[i]), got[i], math.Float32bits(got[i]))...)
		}
	}
}

func floatsOf(raw []byte) []float32 {
	floats := make([]float32, len(raw)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return floats
}

// TestDequantRowReference checks that DequantRow computes the values of the reference
// decoder, for every format with reference rows.
func TestDequantRowReference(t *testing.T) {
	seen := map[Type]bool{}
	for _, row := range referenceRows(t) {
		format, ok := ParseType(row.Type)
		require.True(t, ok, row.Type)
		seen[format] = true
		want := floatsOf(row.Values)
		got := make([]float32, len(want))
		DequantRow(format, got, row.Raw)
		requireBits(t, want, got, "%s", row.Source)
	}
	for format := F32; format < numTypes; format++ {
		if format != F32 && format != MXFP4 && format.InGGUF() { // formats without reference rows have their own tests
			require.True(t, seen[format], "no reference row of %s", format)
		}
	}
}

// TestDequantMatchesPortable checks that the decoders of every path equal the portable
// decoders on random rows of several lengths.
func TestDequantMatchesPortable(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(10, 1))
		for format := F32; format < numTypes; format++ {
			for _, cols := range []int{0, 1, 15, 16, 17, 32, 96, 256, 1024} {
				if cols%format.BlockElems() != 0 {
					continue
				}
				src := randomRows(rng, format, 1, cols)
				want, got := make([]float32, cols), make([]float32, cols)
				dequantPortable(format, want, src)
				DequantRow(format, got, src)
				requireBits(t, want, got, "%s cols=%d", format, cols)
			}
		}
	})
}

// TestDequantMXFP4 checks that values follow the OCP microscaling definition, e2m1 numbers times a power of two with bias 127,
// with every exponent and on every path. The largest exponent, which the definition leaves out, is read as a power too.
func TestDequantMXFP4(t *testing.T) {
	e2m1 := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
	var blocks []byte
	var want []float32
	for exponent := range 256 {
		blocks = append(blocks, byte(exponent))
		values := make([]float32, 32)
		for i := range 16 {
			blocks = append(blocks, byte(i|(15-i)<<4))
			values[i] = float32(math.Ldexp(e2m1[i], exponent-127))
			values[31-i] = values[i]
		}
		want = append(want, values...)
	}
	forEachPath(t, func(t *testing.T) {
		got := make([]float32, len(want))
		DequantRow(MXFP4, got, blocks)
		for i := range want {
			require.Equal(t, want[i], got[i], "exponent %d, element %d", i/32, i%32)
		}
	})
}

// TestDequantI4Z checks that values equal scale·(code-zero) in exact arithmetic.
func TestDequantI4Z(t *testing.T) {
	block, got := make([]byte, 19), make([]float32, 32)
	for i := range 16 {
		block[3+i] = byte(i | (15-i)<<4)
	}
	for _, half := range []uint16{0x3c00, 0xb555, 0x0001, 0x2e67, 0x7bff} {
		for _, zero := range []byte{0, 1, 7, 8, 15, 16, 255} {
			block[0], block[1], block[2] = byte(half), byte(half>>8), zero
			DequantRow(I4Z, got, block)
			for i := range 16 {
				for at, code := range map[int]int{i: i, 16 + i: 15 - i} {
					want := float64(F16ToF32(half)) * float64(code-int(zero))
					require.Equal(t, want, float64(got[at]), "scale %#x, zero %d, element %d", half, zero, at)
				}
			}
		}
	}
}

// TestDequantNF4 checks that the levels are the published ones, rounded to multiples of
// 1/127.
func TestDequantNF4(t *testing.T) {
	published := [16]float64{
		-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
		-0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
		0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
	}
	block, got := make([]byte, 18), make([]float32, 32)
	scale := F32ToF16(2.0 / 127)
	block[0], block[1] = byte(scale), byte(scale>>8)
	for i := range 16 {
		block[2+i] = byte(i | (15-i)<<4)
	}
	DequantRow(NF4, got, block)
	for i, level := range published {
		want := F16ToF32(scale) * float32(math.Round(127*level))
		require.Equal(t, want, got[i])
		require.Equal(t, want, got[31-i])
		require.InDelta(t, 2*level, got[i], 2*0.0045)
	}
}

// TestHalfFloats checks conversions between float32 and binary16 or bfloat16.
func TestHalfFloats(t *testing.T) {
	// Every pattern survives a round trip and agrees with the decoder.
	for h := range 1 << 16 {
		for _, format := range []Type{F16, BF16} {
			got := make([]float32, 1)
			DequantRow(format, got, []byte{byte(h), byte(h >> 8)})
			back := F32ToF16(got[0])
			if format == BF16 {
				back = F32ToBF16(got[0])
			}
			if got[0] == got[0] {
				require.Equal(t, uint16(h), back)
			} else {
				require.Equal(t, uint16(h)|back, back, "NaN %#x became %#x", h, back)
			}
		}
	}
	for _, c := range []struct {
		f         float32
		f16, bf16 uint16
	}{
		{1, 0x3c00, 0x3f80},
		{1 + 0x1p-11, 0x3c00, 0x3f80},           // half way: down to even
		{1 + 0x3p-11, 0x3c02, 0x3f80},           // half way: up to even
		{1 + 0x1p-8, 0x3c04, 0x3f80},            // half way for bfloat16
		{1 + 0x3p-8, 0x3c0c, 0x3f82},            //
		{65504, 0x7bff, 0x4780},                 // largest binary16
		{65520, 0x7c00, 0x4780},                 // rounds to infinity
		{0x1p-24, 0x0001, 0x3380},               // smallest subnormal
		{0x1p-25, 0x0000, 0x3300},               // half way to zero
		{0x1.8p-25, 0x0001, 0x3340},             //
		{-0x1.ff8p-15, 0x83ff, 0xb880},          // largest subnormal
		{-0x1.ffcp-15, 0x8400, 0xb880},          // half way to the smallest normal
		{math.MaxFloat32, 0x7c00, 0x7f80},       //
		{float32(math.Inf(-1)), 0xfc00, 0xff80}, //
	} {
		require.Equal(t, c.f16, F32ToF16(c.f), "%g", c.f)
		require.Equal(t, c.bf16, F32ToBF16(c.f), "%g", c.f)
	}
}
