package quant

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// referenceRow is a row of a model file written by the reference quantizer and
// the float32 values that the reference decoder reads from it.
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

// requireBits fails unless got has exactly the bits of want. Any NaN equals
// any other.
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

// TestDequantRowReference compares every format that the reference quantizer
// wrote with the values of the reference decoder.
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
		if format != F32 && format != MXFP4 { // no samples: see their own tests
			require.True(t, seen[format], "no reference row of %s", format)
		}
	}
}
