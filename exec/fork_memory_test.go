package exec

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestForksShareMemory forks the bundled model's sequence of 16384 tokens seven times and extends all
// eight, with its pages in memory and on flash. Together they take at most a tenth more memory for keys
// and values than the one. A fixture with short convolutions has so few keys that it takes more tokens to
// fill as much memory.
func TestForksShareMemory(t *testing.T) {
	const convTokens = 98304
	for _, test := range []struct {
		dir    string
		tokens int
		format kv.Format
	}{
		{hubmodel.Dir(testutil.Root(t)), 16384, kv.K8V8},
		{longFixture(t, "lfm2", convTokens+64, 0), convTokens, kv.F32},
	} {
		for _, hot := range []int64{0, 6 << 20} {
			t.Run(filepath.Join(filepath.Base(test.dir), tiering.SizeText(hot)), func(t *testing.T) {
				budget := tiering.New(0)
				o := Options{Threads: 2, Chunk: 64, Budget: budget, KV: test.format, KVHot: hot}
				if hot > 0 {
					o.KVSpill = kv.NewScratch(vfs.OS(), t.TempDir(), budget)
				}
				m := openFixture(t, test.dir, "config.json", o)
				read := func() int64 {
					u := budget.Usage()
					return u.By[tiering.KVHot] + u.By[tiering.KVFrames]
				}
				all := callersOf(t, m, 1, nil, []int32{1})
				require.NoError(t, m.Fill(t.Context(), all[0].seq, test.tokens-10))
				all[0].extend()
				require.NoError(t, all[0].err)
				one, readOne := read(), m.KVStats().Read
				want := all[0].logits
				for len(all) < 8 {
					f, err := all[0].seq.Fork()
					require.NoError(t, err)
					t.Cleanup(f.Close)
					all = append(all, &caller{seq: f, ids: []int32{2}, ctx: t.Context()})
				}
				all[0].ids = []int32{2}
				inOnePass(m, all, nil)
				for _, c := range all {
					require.NoError(t, c.err)
					require.Equal(t, all[0].logits, c.logits)
				}
				require.NotEqual(t, want, all[0].logits)
				require.Equal(t, hot > 0, m.KVStats().ColdPages > 0)
				t.Logf("KV memory of one: %d bytes; of eight branches: %d", one, read())
				require.LessOrEqual(t, m.KVStats().Read, 4*readOne, "pages on flash are read once for all")
				require.LessOrEqual(t, float64(read()), 1.1*float64(one))
			})
		}
	}
}
