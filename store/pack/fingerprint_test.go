package pack

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFingerprint changes each part of a model's files.
func TestFingerprint(t *testing.T) {
	weights := SourceFile{Size: 3, Sum: sha256.Sum256([]byte("abc"))}
	more := SourceFile{Size: 3, Sum: sha256.Sum256([]byte("abd"))}
	config := SourceFile{Role: "config.json", Size: 2, Sum: sha256.Sum256([]byte("{}"))}
	first := FingerprintOf([]SourceFile{weights, more, config})
	require.Equal(t, first, FingerprintOf([]SourceFile{config, more, weights}), "in any order")
	require.Len(t, first.String(), 16)
	seen := map[Fingerprint]bool{first: true}
	longer, renamed := weights, config
	longer.Size++
	renamed.Role = "tokenizer.json"
	for _, other := range [][]SourceFile{
		nil, {weights}, {weights, config}, {weights, weights, config}, {longer, more, config}, {weights, more, renamed},
	} {
		f := FingerprintOf(other)
		require.False(t, seen[f], "%v", other)
		seen[f] = true
	}
}
