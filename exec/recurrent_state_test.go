package exec

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store"
)

// recurrentFixtures are the sets of the fixtures with recurrent state.
var recurrentFixtures = map[string]string{
	"lfm2": "fixtures", "lfm2_moe": "fixtures2026", "qwen3_5": "fixtures2026", "qwen3_5_moe": "fixtures2026", "qwen3_next": "fixtures2026",
	"mamba2": "fixtures2026", "granitemoehybrid": "fixtures2026", "falcon_h1": "fixtures2026", "nemotron_h": "fixtures2026",
}

// forRecurrent runs a test for each of them.
func forRecurrent(t *testing.T, test func(t *testing.T, dir string)) {
	for name, set := range recurrentFixtures {
		t.Run(name, func(t *testing.T) { test(t, testutil.Shared(t, set, name)) })
	}
}

// TestRecurrentStateIsSaved saves a sequence to the prefix cache, at once and behind, and restores it: the tokens behind
// it get the same logits. A damaged state is reported and computed again.
func TestRecurrentStateIsSaved(t *testing.T) {
	forRecurrent(t, func(t *testing.T, dir string) {
		o := Options{Threads: 2, Chunk: 50, KV: kv.F32}
		m := openFixture(t, dir, "config.json", o)
		ids, cache := longPrompt(m.Spec.Vocab, 170, 3), t.TempDir()
		want := allLogits(t, m, ids)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		extendAll(t, m, s, ids[:90])
		stores := savedStores(t, m, cache)
		_, err = s.Save(stores, ids[:90], 1, false)
		require.NoError(t, err)
		require.Equal(t, 64, s.Saved())
		extendAll(t, m, s, ids[90:140])
		require.NoError(t, s.SaveBehind(stores, ids[:140], 1))
		require.Equal(t, want[140:], extendAll(t, m, s, ids[140:]), "while the save runs")
		require.NoError(t, s.FinishSave())
		require.Equal(t, 128, s.Saved())
		require.Equal(t, 128, s.Truncate(140))
		require.Equal(t, want[128:], extendAll(t, m, s, ids[128:]))
		s.Close()

		for _, length := range []int{70, 100, 170} {
			restoreSaved(t, openFixture(t, dir, "config.json", o), cache, ids[:length], want, min(length, 128)/64*64)
		}
		damageStates(t, cache)
		restoreSaved(t, openFixture(t, dir, "config.json", o), cache, ids, want, -1)
		restoreSaved(t, openFixture(t, dir, "config.json", o), cache, ids, want, -1)
		restoreSaved(t, openFixture(t, dir, "config.json", o), cache, ids, want, 0)
	})
}

// restoreSaved restores as many tokens as expected, or finds damage, and compares the logits of the others.
func restoreSaved(t *testing.T, m *Model, cache string, ids []int32, want [][]float32, expected int) {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	n, err := s.RestorePrefix(context.Background(), savedStores(t, m, cache), ids)
	if expected < 0 {
		require.ErrorIs(t, err, store.ErrFormat)
		require.ErrorContains(t, err, ".state")
		expected = 0
	} else {
		require.NoError(t, err)
	}
	require.Equal(t, expected, n)
	require.Equal(t, want[n:len(ids)], extendAll(t, m, s, ids[n:]))
}

// damageStates changes a byte of each saved state.
func damageStates(t *testing.T, cache string) {
	t.Helper()
	damaged := 0
	require.NoError(t, filepath.WalkDir(cache, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".state") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data[len(data)-5] ^= 1
		damaged++
		return os.WriteFile(path, data, 0o600)
	}))
	require.Equal(t, 2, damaged)
}

// TestRecurrentGuessesAreDropped verifies guesses, keeps some of them, and forks in between: all logits are those of the
// text alone.
func TestRecurrentGuessesAreDropped(t *testing.T) {
	forRecurrent(t, func(t *testing.T, dir string) {
		m := openFixture(t, dir, "config.json", Options{Threads: 2, KV: kv.F32})
		ids := longPrompt(m.Spec.Vocab, 200, 5)
		want := allLogits(t, m, ids)
		rng := rand.New(rand.NewPCG(3, 9))
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		defer func() { s.Close() }()
		require.NoError(t, s.AllowDrafts(6))
		extendAll(t, m, s, ids[:50])
		dropped := 0
		for s.Len() < len(ids)-8 {
			at := s.Len()
			n := 1 + s.DraftRoom(rng.IntN(7))
			keep := 1 + rng.IntN(n)
			guess := slices.Concat(ids[at:at+keep], longPrompt(m.Spec.Vocab, n-keep, rng.Uint64()))
			var got [][]float32
			require.NoError(t, m.Extend(context.Background(), s, guess, &ExtendOptions{
				Want:     func(int) bool { return true },
				Each:     func(_ int, l []float32) error { got = append(got, slices.Clone(l)); return nil },
				Accepted: func() int { return at + keep },
			}))
			require.Equal(t, at+keep, s.Len())
			require.Equal(t, want[at:at+keep], got[:keep], "position %d", at)
			dropped += n - keep
			if rng.IntN(4) == 0 {
				f, err := s.Fork()
				require.NoError(t, err)
				extendAll(t, m, s, longPrompt(m.Spec.Vocab, 3, 1)) // the fork does not see it
				s.Close()
				s = f
				require.NoError(t, s.AllowDrafts(6))
			}
		}
		require.Positive(t, dropped)
	})
}

// TestRecurrentSequencesSharePasses extends several sequences at the same time, in calls of different sizes.
func TestRecurrentSequencesSharePasses(t *testing.T) {
	forRecurrent(t, func(t *testing.T, dir string) {
		m := openFixture(t, dir, "config.json", Options{Threads: 2, Chunk: 40})
		var done sync.WaitGroup
		for i := range 3 {
			ids := longPrompt(m.Spec.Vocab, 90, uint64(i))
			want := allLogits(t, m, ids)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			t.Cleanup(s.Close)
			done.Go(func() {
				for s.Len() < len(ids) {
					at := s.Len()
					n := min(len(ids)-at, 1+i*17)
					got := extendAll(t, m, s, ids[at:at+n])
					assert.Equal(t, want[at:at+n], got, "sequence %d, position %d", i, at)
				}
			})
		}
		done.Wait()
	})
}
