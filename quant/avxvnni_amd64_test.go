//go:build !noasm

package quant

import (
	_ "embed"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

//go:embed avxvnni_amd64.h
var vnniHeader string

// TestVNNIEncodings compares what the macro of avxvnni_amd64.h encodes with what llvm-mc assembles.
// Most machines cannot run this instruction.
func TestVNNIEncodings(t *testing.T) {
	for _, c := range []struct {
		values, sum string
		avx512, vex string
	}{
		// llvm-mc -mattr=+avxvnni,+avx512vnni,+avx512vl -show-encoding -x86-asm-syntax=intel
		{"11", "14", "62 52 25 28 52 f2", "c4 42 25 52 f2"}, // vpdpwssd ymm14, ymm11, ymm10
		{"12", "15", "62 52 1d 28 52 fa", "c4 42 1d 52 fa"}, // vpdpwssd ymm15, ymm12, ymm10
		{"0", "8", "62 52 7d 28 52 c2", "c4 42 7d 52 c2"},   // vpdpwssd ymm8, ymm0, ymm10
	} {
		require.Equal(t, []string{c.avx512, c.vex}, testutil.MacroBytes(t, vnniHeader, "VPDPWSSD_WEIGHTS10", c.values, c.sum), "values %s, sum %s", c.values, c.sum)
	}
}
