package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSum64(t *testing.T) {
	a, b := []byte("ab"), []byte("c")
	require.Equal(t, Sum64(1, []byte("abc")), Sum64(1, a, b), "the parts are concatenated")
	require.NotEqual(t, Sum64(1, a), Sum64(2, a))
	require.NotZero(t, Sum64(1))
	h := Hash64(1)
	_, _ = h.Write(a)
	_, _ = h.Write(b)
	require.Equal(t, Sum64(1, a, b), h.Sum64())
	require.EqualValues(t, 0x44bc2cf5ad770999, Sum64(0, []byte("abc")), "the published XXH64 test vector")
	require.Zero(t, testing.AllocsPerRun(10, func() { Sum64(1, a, b) }))
}
