//go:build !noasm

package tiled

import (
	_ "embed"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

//go:embed avxvnni_amd64.h
var vnniHeader string

// TestVNNIEncodings compares what the macros of avxvnni_amd64.h encode with what llvm-mc
// assembles. Most machines cannot run these instructions.
func TestVNNIEncodings(t *testing.T) {
	for _, c := range []struct {
		macro, codes, sum string
		avx512, vex       string
	}{
		// llvm-mc -mattr=+avxvnni,+avx512vnni,+avx512vl -show-encoding -x86-asm-syntax=intel
		{"VPDPBUSD_TOKEN10", "11", "4", "62 d2 25 28 50 e2", "c4 c2 25 50 e2"}, // vpdpbusd ymm4, ymm11, ymm10
		{"VPDPBUSD_TOKEN10", "8", "6", "62 d2 3d 28 50 f2", "c4 c2 3d 50 f2"},  // vpdpbusd ymm6, ymm8, ymm10
		{"VPDPBUSD_TOKEN10", "0", "7", "62 d2 7d 28 50 fa", "c4 c2 7d 50 fa"},  // vpdpbusd ymm7, ymm0, ymm10
		{"VPDPBUSD_TOKEN12", "0", "10", "62 52 7d 28 50 d4", "c4 42 7d 50 d4"}, // vpdpbusd ymm10, ymm0, ymm12
		{"VPDPBUSD_TOKEN12", "7", "11", "62 52 45 28 50 dc", "c4 42 45 50 dc"}, // vpdpbusd ymm11, ymm7, ymm12
		{"VPDPBUSD_TOKEN12", "15", "8", "62 52 05 28 50 c4", "c4 42 05 50 c4"}, // vpdpbusd ymm8, ymm15, ymm12
	} {
		require.Equal(t, []string{c.avx512, c.vex}, testutil.MacroBytes(t, vnniHeader, c.macro, c.codes, c.sum), "%s(%s, %s)", c.macro, c.codes, c.sum)
	}
}
