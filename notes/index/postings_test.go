package index

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestPostingsComeBack fills lists of very different lengths in turn, and reads them.
func TestPostingsComeBack(t *testing.T) {
	r := testutil.Random(t)
	var p postings
	want := map[uint64][]posting{}
	passage := uint32(0)
	for range 20000 {
		passage += uint32(r.IntN(3)) * uint32(r.IntN(1000))
		term := uint64(r.ExpFloat64() * 20)
		times := 1
		if r.IntN(3) == 0 {
			times = 1 + r.IntN(500)
		}
		p.add(term, passage, times)
		want[term] = append(want[term], posting{passage, uint32(times)})
	}
	for term, list := range want {
		require.Equal(t, list, p.read(nil, term))
	}
	require.Empty(t, p.read(nil, 1<<39))
	require.Greater(t, len(want[0]), 500)
	require.Less(t, p.bytes(), int64(20000*8))
}
