package llmrun

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCodeMemory checks that a program with more code than llmrun reserves what is resident,
// and that small differences between two processes do not matter.
func TestCodeMemory(t *testing.T) {
	for resident, want := range map[int64]int64{
		0: 12 << 20, 10 << 20: 12 << 20, 12 << 20: 12 << 20,
		12<<20 + 1: 16 << 20, 14 << 20: 16 << 20, 30 << 20: 32 << 20, 31 << 20: 36 << 20,
	} {
		require.Equal(t, want, codeMemory(resident), "%d", resident)
	}
}
