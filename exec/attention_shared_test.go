package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestBranchesAttendTogether extends random trees of branches in shared passes: with pages in memory and on
// flash, of all formats and sizes, with windows, short convolutions and some branches that read a prompt.
// Each branch gets the logits that its tokens get alone.
func TestBranchesAttendTogether(t *testing.T) {
	for _, name := range []string{"llama3", "gemma3", "lfm2"} {
		t.Run(name, func(t *testing.T) {
			dir := longFixture(t, name, 4096, 200)
			together := 0
			for run := range testutil.Effort(2, 30) {
				rng := rand.New(rand.NewPCG(uint64(run), 5))
				format := kv.Formats()[(run+len(name))%len(kv.Formats())]
				alone := openFixture(t, dir, "config.json", Options{Threads: 1, KV: format})
				o := Options{Threads: 1 + rng.IntN(5), Chunk: 40 + rng.IntN(100), KV: format}
				if run%3 != 0 {
					o = coldOptions(t, rng, vfs.OS(), format, alone.KVBytesPerToken()*kv.BlockTokens)
				}
				m := openFixture(t, dir, "config.json", o)
				all := randomBranches(t, m, rng)
				inOnePass(m, all, nil)
				for i := range m.passes.batch.runs {
					together += m.passes.batch.runs[i].shared
				}
				for i, c := range all {
					require.NoError(t, c.err)
					want := allLogits(t, alone, c.seq.ids)
					require.Equal(t, want[len(want)-len(c.ids):], c.logits, "run %d, branch %d", run, i)
				}
			}
			require.Positive(t, together)
		})
	}
}

// randomBranches returns sequences that come from one by forks, cuts and further tokens, each with tokens
// to extend it by.
func randomBranches(t *testing.T, m *Model, rng *rand.Rand) (all []*caller) {
	tokens := func(n int) []int32 { return longPrompt(m.Spec.Vocab, n, rng.Uint64()) }
	all = callersOf(t, m, 1, tokens(300+rng.IntN(700)), nil)
	for len(all) < 7 {
		s := all[rng.IntN(len(all))].seq
		switch rng.IntN(5) {
		case 0:
			require.NoError(t, m.Extend(t.Context(), s, tokens(1+rng.IntN(300)), &ExtendOptions{}))
		case 1:
			if m.Spec.ConvTaps == 0 {
				s.Truncate(s.Len() - rng.IntN(min(100, s.Len())))
			}
		default:
			f, err := s.Fork()
			require.NoError(t, err)
			t.Cleanup(f.Close)
			all = append(all, &caller{seq: f, ctx: t.Context()})
		}
	}
	for _, c := range all {
		c.ids = tokens([]int{1, 1, 1, 2, 5, 60}[rng.IntN(6)])
	}
	return all
}
