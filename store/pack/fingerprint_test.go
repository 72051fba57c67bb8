package pack

import (
	"crypto/sha256"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
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

// TestSampledFingerprint finds models of old sessions as the programs that saved them did.
func TestSampledFingerprint(t *testing.T) {
	fsys := vfs.NewMem()
	big := make([]byte, 3<<20)
	require.NoError(t, vfs.WriteFile(fsys, "a.gguf", big))
	require.NoError(t, vfs.WriteFile(fsys, "b.json", []byte("{}")))
	of := func(paths ...string) Fingerprint {
		f, err := SampledFingerprint(fsys, paths)
		require.NoError(t, err)
		return f
	}
	first := of("a.gguf", "b.json")
	require.Equal(t, first, of("b.json", "a.gguf"), "the order of paths does not matter")
	require.Len(t, first.String(), 16)
	require.NotEqual(t, first, of("a.gguf"))
	for _, at := range []int{0, headBytes - 1, headBytes + 5, len(big) - 1, len(big) - tailBytes} {
		big[at] ^= 1
		require.NoError(t, vfs.WriteFile(fsys, "a.gguf", big))
		require.NotEqual(t, first, of("a.gguf", "b.json"), "byte %d", at)
		big[at] ^= 1
	}
	require.NoError(t, vfs.WriteFile(fsys, "a.gguf", big[:len(big)-1]))
	require.NotEqual(t, first, of("a.gguf", "b.json"), "another length")
	_, err := SampledFingerprint(fsys, []string{"missing"})
	require.ErrorIs(t, err, fs.ErrNotExist)
}
