package pack

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// TestNamesOfPacksAreShort cuts names to bytes, which file systems count, and not within a character.
func TestNamesOfPacksAreShort(t *testing.T) {
	for _, name := range []string{strings.Repeat("模", 80), strings.Repeat("a", 300), "a" + strings.Repeat("é", 120)} {
		clean := cleanName(name + ".gguf")
		require.LessOrEqual(t, len(clean), 100)
		require.Greater(t, len(clean), 96)
		require.True(t, utf8.ValidString(clean))
		require.True(t, strings.HasPrefix(name, clean))
	}
	require.Equal(t, "a_b", cleanName("a/b.gguf"))
}
