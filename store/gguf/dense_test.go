package gguf

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDenseHeadersStayInBounds opens files that consist of the smallest possible records,
// the worst ratio of memory to input. openBytes checks the bounds.
func TestDenseHeadersStayInBounds(t *testing.T) {
	const n = 100_000
	keys := begin(0, n)
	for i := range n {
		keys.key(fmt.Sprintf("%04x", i), kindUint8).bytes(0)
	}
	tensors := begin(n, 0)
	for i := range n {
		tensors.tensor(fmt.Sprintf("%04x", i), typeF32, uint64(i)*defaultAlignment)
	}
	tensors.data(n * defaultAlignment)
	lists := begin(0, n)
	for i := range n {
		lists.key(fmt.Sprintf("%04x", i), kindArray).u32(uint32(kindString)).u64(0)
	}
	strings := begin(0, 1).key("a", kindArray).u32(uint32(kindString)).u64(n).bytes(make([]byte, 8*n)...)
	for name, c := range map[string]*raw{"keys": keys, "tensors": tensors, "lists": lists, "strings": strings} {
		t.Run(name, func(t *testing.T) {
			_, err := openBytes(t, c.b)
			require.NoError(t, err)
		})
	}
	t.Run("tensors without data", func(t *testing.T) {
		_, err := openBytes(t, tensors.b[:len(tensors.b)-n*defaultAlignment])
		require.Error(t, err)
	})
}
