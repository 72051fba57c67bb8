package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParseSize checks the units of sizes, and the error for texts that are not a size.
func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"1B": 1, "2048": 2048, "500M": 500 << 20, "20g": 20 << 30, "1.5T": 3 << 39, "2GiB": 2 << 30, "3kb": 3 << 10} {
		got, err := parseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "G", "0", "-1", "-5G", "1X", "1GG", "NaN", "Inf", "1e30", "9999999T", "1 G", "1", "1.5", "1024.5"} {
		_, err := parseSize(text)
		require.ErrorContains(t, err, "must be a size", text)
	}
}
