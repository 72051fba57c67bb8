//go:build !noasm

package tiled

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExponentsAMD64 checks the scales of all 256 exponents, including subnormal powers and the largest one.
func TestExponentsAMD64(t *testing.T) {
	var exponents [256]byte
	for i := range exponents {
		exponents[i] = byte(i)
	}
	f := format{exponent: true}
	for _, path := range []struct {
		kernels kernels
		scales  func(dst *float32, src *byte, stride, n int)
	}{{avx2{}, scalesExponentAVX2}, {avx512{}, scalesExponentAVX512}} {
		if !slices.Contains(paths(), path.kernels) {
			continue
		}
		var got [256]float32
		path.scales(&got[0], &exponents[0], TileRows, len(exponents)/TileRows)
		for i, e := range exponents {
			require.Equal(t, f.base(&rowBlock{exponent: e}), got[i], "%T, exponent %d", path.kernels, e)
		}
	}
}
