package quant

import (
	"crypto/sha256"
	"encoding/hex"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// gridSums are SHA-256 sums of the coordinates of all points, of which files of the reference
// quantizer verified every one.
var gridSums = map[Type]string{
	IQ1_S:   "07540ffc1aeaf6ad",
	IQ1_M:   "07540ffc1aeaf6ad",
	IQ2_XXS: "05826b5d3e472a3a",
	IQ2_XS:  "06e47aaca60b4dc1",
	IQ2_S:   "e1aa1473412b0552",
	IQ3_XXS: "46e35f5a997efdee",
	IQ3_S:   "bd1af4945a1717c6",
}

// TestGridsAreThoseOfTheFormats checks every coordinate of every code book.
func TestGridsAreThoseOfTheFormats(t *testing.T) {
	for format, size := range map[Type]int{IQ1_S: 2048, IQ1_M: 2048, IQ2_XXS: 256, IQ2_XS: 512, IQ2_S: 1024, IQ3_XXS: 256, IQ3_S: 512} {
		g := GridOf(format)
		require.Len(t, g.Fields, size, format.String())
		h := sha256.New()
		for i := range g.Fields {
			point := g.Point(i)
			for _, c := range point[:g.Coordinates] {
				h.Write([]byte{byte(c)})
			}
		}
		require.Equal(t, gridSums[format], hex.EncodeToString(h.Sum(nil)[:8]), format.String())
	}
	require.Nil(t, GridOf(Q4_0))
}

// TestSignByte checks that the eighth sign makes the number of negative elements even.
func TestSignByte(t *testing.T) {
	for seven := range uint8(128) {
		signs := SignByte(seven)
		require.Equal(t, seven, signs&127)
		require.Zero(t, bits.OnesCount8(signs)%2)
	}
}
