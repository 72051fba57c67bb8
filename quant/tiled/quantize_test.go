package tiled

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuantizeGroup checks codes and scales of ties, of the largest element and of tiny
// elements.
func TestQuantizeGroup(t *testing.T) {
	x := make([]float32, GroupElems)
	x[0], x[1], x[2], x[3], x[4], x[5] = 127, 0.5, 1.5, 2.5, -0.5, -1.5 // with an inverse scale of 1, ties are exact
	var codes [GroupElems]int8
	require.EqualValues(t, 1, quantizeGroup(&codes, x))
	require.Equal(t, []int8{127, 0, 2, 2, 0, -2}, codes[:6])

	x = make([]float32, GroupElems)
	x[31] = -2
	require.EqualValues(t, float32(2)/127, quantizeGroup(&codes, x))
	require.EqualValues(t, -127, codes[31])

	for _, small := range []float32{0, 0x1p-149, 0x1p-101, -0x1p-101} {
		x = make([]float32, GroupElems)
		x[7] = small
		codes = [GroupElems]int8{}
		require.Zero(t, quantizeGroup(&codes, x), "%g", small)
		require.Equal(t, [GroupElems]int8{}, codes)
	}
}

// inOrder returns the codes token by token, the order of paths that do not pair tokens.
func inOrder(a *Activations) []int8 {
	codes := append([]int8(nil), a.codes...)
	width, _ := a.tile(0)
	if codesApart(active, width) == pairElems {
		return codes
	}
	for at := 0; at < len(codes); at += 2 * GroupElems {
		for i := range GroupElems {
			turn := at + i/pairElems*2*pairElems + i%pairElems
			codes[at+i], codes[at+GroupElems+i] = a.codes[turn], a.codes[turn+pairElems]
		}
	}
	return codes
}

// requireLanes requires the lanes of a batch on a lanesPath, from the definition.
func requireLanes(t *testing.T, a *Activations, tokens int) {
	t.Helper()
	if _, ok := active.(lanesPath); !ok || tokens < 2 {
		return
	}
	width, _ := a.tile(0)
	codes, want := inOrder(a), []int32{}
	for at := 0; at < len(codes); at += GroupElems / 2 {
		var lanes [2]int16
		for k, c := range codes[at:][:GroupElems/2] {
			lanes[k%4/2] += halfZero * int16(c)
		}
		want = append(want, int32(uint16(lanes[0]))|int32(lanes[1])<<16)
	}
	require.Len(t, want, 2*width*a.cols/GroupElems)
	require.Equal(t, want, a.lanes[:len(want)])
}

// TestQuantizationAgrees checks that every path quantizes activations to the same bits.
func TestQuantizationAgrees(t *testing.T) {
	const groups = 12
	x := randomVector(groups*GroupElems, 5)
	group := func(g int, f func(i int) float32) {
		for i := range GroupElems {
			x[g*GroupElems+i] = f(i)
		}
	}
	group(1, func(int) float32 { return 0 })
	group(2, func(i int) float32 { return 127 - float32(i)*3.5 }) // ties
	group(3, func(i int) float32 { return float32(math.Copysign(0, float64(i%2)-1)) })
	group(4, func(i int) float32 { return float32(i) * 0x1p-104 }) // around the smallest magnitude that is not flushed to zero
	group(5, func(i int) float32 { return float32(i-16) * 0x1p122 })
	group(6, func(i int) float32 { return float32(1 - i%2*2) })
	x[7*GroupElems+3] = float32(math.Inf(-1))
	x[8*GroupElems+30] = float32(math.NaN())
	bits := func(f []float32) []int32 {
		out := make([]int32, len(f))
		for i, v := range f {
			if v == v { // NaNs may differ in their payload
				out[i] = int32(math.Float32bits(v))
			}
		}
		return out
	}
	forEachPath(t, func(t *testing.T, path kernels) {
		for _, tokens := range []int{1, 2, 3, 6} {
			cols := len(x) / tokens / GroupElems * GroupElems
			usePath(t, portable{})
			want := activationsOf(x, cols, tokens)
			usePath(t, path)
			got := activationsOf(x, cols, tokens)
			require.Equal(t, want.codes, inOrder(got))
			require.Equal(t, bits(want.scale), bits(got.scale))
			require.Equal(t, bits(want.shift), bits(got.shift))
			require.Equal(t, want.start, got.start)
			require.Equal(t, want.halfStart, got.halfStart)
			requireLanes(t, got, tokens)
		}
	})
}
