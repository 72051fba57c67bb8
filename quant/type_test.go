package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestTypeNamesAndNumbers checks that ParseType and FromID invert String and ID.
func TestTypeNamesAndNumbers(t *testing.T) {
	for format := F32; format < numTypes; format++ {
		byName, ok := ParseType(format.String())
		require.True(t, ok)
		require.Equal(t, format, byName)
		byNumber, err := FromID(format.ID())
		require.NoError(t, err)
		require.Equal(t, format, byNumber)
		_, err = FromGGUF(format.ID())
		require.Equal(t, format.InGGUF(), err == nil, format.String())
	}
	_, ok := ParseType("Q9_9")
	require.False(t, ok)
	_, ok = ParseType("")
	require.False(t, ok, "the invalid type has no name to parse")
	require.Equal(t, "Type(0)", Invalid.String())
	require.False(t, Invalid.Valid())
	require.False(t, numTypes.Valid())
}

// TestFromGGUFNamesUnsupportedTypes checks that the error of FromGGUF names the type.
func TestFromGGUFNamesUnsupportedTypes(t *testing.T) {
	_, err := FromGGUF(9)
	require.ErrorContains(t, err, "Q8_1")
	_, err = FromGGUF(999)
	require.ErrorContains(t, err, "unknown tensor type 999")
}

// TestRowBytes checks the sizes of rows and the errors for invalid types and lengths.
func TestRowBytes(t *testing.T) {
	for _, c := range []struct {
		format Type
		cols   int
		want   int
		reason string
	}{
		{F32, 5, 20, ""},
		{BF16, 0, 0, ""},
		{Q8_0, 64, 68, ""},
		{Q4_K, 512, 288, ""},
		{Q8_0, 33, 0, "not a whole number"},
		{Q8_0, -32, 0, "not a whole number"},
		{F32, math.MaxInt/4 + 1, 0, "overflows"},
		{Invalid, 32, 0, "invalid type"},
		{numTypes, 32, 0, "invalid type"},
	} {
		got, err := c.format.RowBytes(c.cols)
		if c.reason != "" {
			require.ErrorContains(t, err, c.reason, "%s %d", c.format, c.cols)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s %d", c.format, c.cols)
	}
}

// TestChoosePath checks that choose returns a supported path by name, and otherwise the
// best path.
func TestChoosePath(t *testing.T) {
	paths := supportedPaths()
	for _, path := range paths {
		require.Equal(t, path.name(), choose(path.name()).name())
	}
	best := paths[0].name()
	require.Equal(t, best, choose("").name())
	require.Equal(t, best, choose("a path of another processor").name())
	require.Equal(t, "portable", paths[len(paths)-1].name(), "every processor has the portable path")
	usePath(t, paths[0])
	require.Equal(t, best, Features())
}

// TestKernelsDoNotAllocate checks that the functions of a forward pass do not allocate.
func TestKernelsDoNotAllocate(t *testing.T) {
	forEachPath(t, func(t *testing.T) {
		const rows, cols, n = 16, 256, 4
		w, s := make([]byte, rows*cols*2), NewScratch(cols)
		x, y := make([]float32, n*cols), make([]float32, n*rows)
		for name, call := range map[string]func(){
			"products":  func() { MulRows(y, rows, BF16, w, cols, 0, rows, x, n, s) },
			"product":   func() { MulRows(y, rows, BF16, w, cols, 0, rows, x, 1, s) },
			"quantized": func() { MulRows(y, rows, Q8_0, w, cols, 0, rows, x, n, s) },
			"scores":    func() { MulRowsF32(y, rows, x, cols, 4, cols, x, cols, n) },
			"sums":      func() { WeightedSum(x, cols, y, rows, x, cols, 4, cols, 1) },
			"softmax":   func() { SoftmaxBlock(y, len(y)) },
			"norm":      func() { RMSNorm(x, x, x, 1e-5, 0) },
			"silu":      func() { SiluMul(x, x, x); GeluTanh(x, x); SoftCap(x, 30) },
		} {
			require.Zero(t, testutil.AllocsPerRun(5, 0, call), name)
		}
	})
}
