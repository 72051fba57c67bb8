package weights

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLookupStoredBegunAhead submits the reads of a lookup before the lookup, and looks up other rows
// too: each row is that of its token, as it is stored.
func TestLookupStoredBegunAhead(t *testing.T) {
	e := flashEmbedding(5000, noError)
	r := newLookupTest(t, e, 300<<10)
	ids := []int32{7, 4000, 7, 12, 3999}
	stored := make([]byte, len(ids)*e.RowBytes())
	for _, begun := range [][]int32{ids, {1, 2}, nil} {
		r.Begin(begun)
		clear(stored)
		require.NoError(t, r.LookupStored(context.Background(), stored, ids, r.raw))
		copyOf := r.dst[:len(ids)*rowTestCols]
		require.NoError(t, r.Lookup(context.Background(), copyOf, ids, r.raw))
		for i := range ids {
			row := make([]byte, e.RowBytes())
			require.NoError(t, r.LookupStored(context.Background(), row, ids[i:i+1], r.raw))
			require.Equal(t, row, stored[i*e.RowBytes():(i+1)*e.RowBytes()], "token %d", ids[i])
			require.Equal(t, float32(ids[i]), copyOf[i*rowTestCols])
		}
	}
}
