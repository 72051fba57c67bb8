package weights

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
	"github.com/llmrun/llmrun/tiering"
)

// textIDs returns the token ids of a long story, as the bundled model encodes it.
func textIDs(tb testing.TB) []int32 {
	f, err := modelfile.Open(vfs.OS(), filepath.Join(testutil.Root(tb), "cmd", "llmrun", "bundled", "model"))
	require.NoError(tb, err)
	defer f.Close()
	tok, err := f.Tokenizer()
	require.NoError(tb, err)
	text, err := os.ReadFile(testutil.Shared(tb, "demo", "long_text.txt"))
	require.NoError(tb, err)
	return testutil.Must(tok.Encode(string(text), token.EncodeOptions{}))
}

// rowHits returns how many lookups of the row cache hit.
func rowHits(tb testing.TB, ids []int32, slots int) (hits int) {
	const row = 64
	c, err := newRowCache(tiering.New(0), row, slots*row)
	require.NoError(tb, err)
	defer c.free()
	data := make([]byte, row)
	for _, id := range ids {
		if c.get(id) != nil {
			hits++
			continue
		}
		c.admit(id, data)
	}
	return hits
}

// BenchmarkEmbeddingRowPolicies reports the hits of the embedding row cache on the tokens of a real
// text.
func BenchmarkEmbeddingRowPolicies(b *testing.B) {
	ids := textIDs(b)
	for _, slots := range []int{64, 256, 1024} {
		b.Run(fmt.Sprint(slots), func(b *testing.B) {
			n := 0
			for range b.N {
				n = rowHits(b, ids, slots)
			}
			b.ReportMetric(100*float64(n)/float64(len(ids)), "%hits")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/token")
		})
	}
}
