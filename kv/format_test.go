package kv

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// headDims includes sizes that no model has.
var headDims = []int{3, 16, 64, 80, 96, 128, 256}

// forEachFormat runs check for every format and head size.
func forEachFormat(t *testing.T, check func(t *testing.T, f Format, d int)) {
	for _, f := range Formats() {
		t.Run(f.String(), func(t *testing.T) {
			for _, d := range headDims {
				check(t, f, d)
			}
		})
	}
}

// aligned returns memory with the alignment of pages.
func aligned(t *testing.T, n int) []byte {
	frame, err := tiering.Alloc(tiering.New(0), tiering.KVHot, n)
	require.NoError(t, err)
	t.Cleanup(frame.Free)
	return frame.Bytes()[:n]
}

// randomToken returns a random key and value. As in real keys, some elements are much
// larger than others, always the same ones.
func randomToken(random *rand.Rand, d int) (k, v []float32) {
	k, v = make([]float32, d), make([]float32, d)
	for i := range k {
		k[i] = float32(random.NormFloat64() + 10*float64(i%7/6))
		v[i] = float32(random.NormFloat64()) * 100
	}
	return k, v
}

// readKey and readValue decode a block by the definition of its layout, without the
// code of attention. least is an upper bound of half the smallest step of each
// element.
func readKey(f Format, block []byte, d, row int) (x, least []float32) {
	x, least = make([]float32, d), make([]float32, d)
	switch f {
	case F32:
		k, _ := f.Block32(block, d)
		copy(x, k[row*d:])
	case F16:
		k, _ := f.Block16(block, d)
		read16(x, least, k[2*row*d:])
	case K4V8:
		raw := make([]byte, KeyCols(d)/32*20)
		tiled.UnpackRow(raw, quant.Q4_1, f.Block8(block, d).Keys, KeyCols(d), row)
		all := make([]float32, KeyCols(d))
		quant.DequantRow(quant.Q4_1, all, raw)
		copy(x, all)
		for i := range least {
			group := raw[i/32*20:]
			scale := quant.F16ToF32(uint16(group[0]) | uint16(group[1])<<8)
			offset := quant.F16ToF32(uint16(group[2]) | uint16(group[3])<<8)
			// The elements lose what scale and offset lose in binary16.
			least[i] = scale*(0.5+15.0/2048) + float32(math.Abs(float64(offset)))/2048
		}
	default:
		b := f.Block8(block, d)
		tile := b.Keys[row/16*16*KeyCols(d):]
		for i := range x {
			x[i] = float32(int8(tile[i/4*64+row%16*4+i%4]^0x80)) * b.KeyScales[row]
			least[i] = b.KeyScales[row] * 0.501
		}
	}
	return x, least
}

func readValue(f Format, block []byte, d, row int) (x, least []float32) {
	x, least = make([]float32, d), make([]float32, d)
	switch f {
	case F32:
		_, v := f.Block32(block, d)
		copy(x, v[row*d:])
	case F16:
		_, v := f.Block16(block, d)
		read16(x, least, v[2*row*d:])
	case K8F8:
		b := f.Block8(block, d)
		for i := range x {
			value := quant.F8ToF32(b.Floats[row*d+i])
			x[i] = value * b.Scales[row]
			// Four bits of precision, or the smallest step.
			least[i] = b.Scales[row] * float32(max(math.Abs(float64(value))/15, 0x1p-18)) * 1.001
		}
	default:
		b := f.Block8(block, d)
		for i := range x {
			x[i] = float32(b.Values[row/2*2*d+2*i+row%2]) * b.Scales[row]
			least[i] = b.Scales[row] * 0.501
		}
	}
	return x, least
}

func read16(x, least []float32, src []byte) {
	quant.DequantRow(quant.F16, x, src[:2*len(x)])
	for i, v := range x {
		least[i] = float32(max(math.Abs(float64(v))/2047, 0x1p-25))
	}
}

func TestStoredValuesAreCloseToInput(t *testing.T) {
	forEachFormat(t, func(t *testing.T, f Format, d int) {
		random := rand.New(rand.NewPCG(uint64(d), 1))
		block := aligned(t, f.BlockBytes(d))
		for i := range block {
			block[i] = byte(i*7 + 1) // previous contents of the page
		}
		var keys, values [][]float32
		for row := range BlockTokens {
			k, v := randomToken(random, d)
			if row == 3 {
				clear(k)
				clear(v)
			}
			f.put(block, row, k, v)
			keys, values = append(keys, k), append(values, v)
		}
		for row := range BlockTokens {
			k, leastK := readKey(f, block, d, row)
			v, leastV := readValue(f, block, d, row)
			for i := range d {
				require.InDelta(t, keys[row][i], k[i], float64(leastK[i]), "key %d of %d: element %d", row, d, i)
				require.InDelta(t, values[row][i], v[i], float64(leastV[i]), "value %d of %d: element %d", row, d, i)
			}
		}
	})
}

// TestPutWritesOnlyTheTokensBytes checks that storing a token changes no other token:
// each byte belongs to one token, and all tokens have the same number of bytes.
func TestPutWritesOnlyTheTokensBytes(t *testing.T) {
	forEachFormat(t, func(t *testing.T, f Format, d int) {
		random := rand.New(rand.NewPCG(uint64(d), 2))
		block := aligned(t, f.BlockBytes(d))
		k, v := randomToken(random, d)
		written := make([]int, len(block))
		for row := range BlockTokens {
			mine := make([]bool, len(block))
			for _, fill := range []byte{0, 0xFF} { // a stored byte differs from one of the two
				for i := range block {
					block[i] = fill
				}
				f.put(block, row, k, v)
				for i, b := range block {
					mine[i] = mine[i] || b != fill
				}
			}
			bytes := 0
			for i, m := range mine {
				if m {
					written[i]++
					bytes++
				}
			}
			require.LessOrEqual(t, bytes, len(block)/BlockTokens, "%d elements, token %d", d, row)
			require.Greater(t, bytes, 0)
		}
		for i, n := range written {
			require.LessOrEqual(t, n, 1, "byte %d belongs to %d tokens", i, n)
		}
	})
}

// TestPutOrderDoesNotChangeBytes checks that quantization depends on the token alone.
func TestPutOrderDoesNotChangeBytes(t *testing.T) {
	forEachFormat(t, func(t *testing.T, f Format, d int) {
		random := rand.New(rand.NewPCG(uint64(d), 3))
		a, b := aligned(t, f.BlockBytes(d)), aligned(t, f.BlockBytes(d))
		k, v := make([][]float32, BlockTokens), make([][]float32, BlockTokens)
		for row := range BlockTokens {
			k[row], v[row] = randomToken(random, d)
			f.put(a, row, k[row], v[row])
		}
		for _, row := range random.Perm(BlockTokens) {
			f.put(b, row, k[row], v[row])
		}
		require.True(t, bytes.Equal(a, b), "%d elements", d)
	})
}

// TestQuantizedFormatsTakeOneBytePerElement checks the documented size of the
// formats.
func TestQuantizedFormatsTakeOneBytePerElement(t *testing.T) {
	for _, d := range []int{64, 96, 128, 256} {
		for _, f := range []Format{K8V8, K8F8, K4V8} {
			perElement := float64(f.BlockBytes(d)) / float64(2*d*BlockTokens)
			require.LessOrEqual(t, perElement, 1.07, "%s", f)
			require.GreaterOrEqual(t, f.BlockBytes(d), Smallest.BlockBytes(d))
		}
	}
}

// TestSixteenBlocksFillWholePages checks that direct I/O can read 16 blocks of any
// layer.
func TestSixteenBlocksFillWholePages(t *testing.T) {
	for _, f := range Formats() {
		for d := 1; d < 300; d++ {
			require.Zero(t, f.BlockBytes(d)*16%4096, "%s with heads of %d", f, d)
			require.Zero(t, f.BlockBytes(d)%64, "%s with heads of %d", f, d)
		}
	}
}

// TestNonFiniteInputStaysNonFinite checks that a NaN or an infinity remains visible,
// at least in its element.
func TestNonFiniteInputStaysNonFinite(t *testing.T) {
	finite := func(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }
	forEachFormat(t, func(t *testing.T, f Format, d int) {
		block := aligned(t, f.BlockBytes(d))
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			for _, at := range []int{0, d / 2, d - 1} {
				k, v := randomToken(rand.New(rand.NewPCG(1, 1)), d)
				k[at], v[at] = bad, bad
				f.put(block, 5, k, v)
				if f.Codes() {
					b := f.Block8(block, d)
					require.False(t, finite(b.Scales[5]), "%v at %d of %d", bad, at, d)
					if f != K4V8 {
						require.False(t, finite(b.KeyScales[5]), "%v at %d of %d", bad, at, d)
						continue
					}
				}
				x, _ := readKey(f, block, d, 5)
				require.False(t, finite(x[at]), "%v at %d of %d", bad, at, d)
			}
		}
	})
}

// TestPagesAreReadableAtAnyAddress checks that a copy of a page gives the same views.
func TestPagesAreReadableAtAnyAddress(t *testing.T) {
	forEachFormat(t, func(t *testing.T, f Format, d int) {
		c, err := NewCache(Shape{HeadDim: d, KVHeads: []int{2}, Format: f}, tiering.New(0), Options{})
		require.NoError(t, err)
		defer c.Close()
		s := c.NewSeq()
		defer s.Close()
		require.NoError(t, s.Grow(t.Context(), BlockTokens))
		random := rand.New(rand.NewPCG(uint64(d), 4))
		for pos := range BlockTokens {
			k, v := randomToken(random, 2*d)
			s.Put(0, pos, k, v)
		}
		for head := range 2 {
			block := s.HeadBlock(0, head, 0)
			foreign := aligned(t, len(block))
			copy(foreign, block)
			for row := range BlockTokens {
				wantK, _ := readKey(f, block, d, row)
				gotK, _ := readKey(f, foreign, d, row)
				require.Equal(t, wantK, gotK)
				wantV, _ := readValue(f, block, d, row)
				gotV, _ := readValue(f, foreign, d, row)
				require.Equal(t, wantV, gotV)
			}
		}
	})
}

// TestFormatCheckPasses checks the kernels of the machine that runs the tests.
func TestFormatCheckPasses(t *testing.T) {
	forEachFormat(t, func(t *testing.T, f Format, d int) { require.NoError(t, f.Check(d)) })
}

func TestFormatsHaveNames(t *testing.T) {
	for _, f := range Formats() {
		got, err := ParseFormat(f.String())
		require.NoError(t, err)
		require.Equal(t, f, got)
	}
	require.Len(t, Formats(), len(formatNames))
	_, err := ParseFormat("k2v2")
	require.ErrorContains(t, err, "f32, k8v8, k8f8, k4v8, f16")
}
