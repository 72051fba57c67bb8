package exec

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestSequencesKnowTheOthers runs passes of four sequences, of which one verifies guesses and one reads a prompt: each knows what
// the others had in its last pass, until it is alone.
func TestSequencesKnowTheOthers(t *testing.T) {
	m := openFixture(t, testutil.Shared(t, "fixtures", "llama3"), "config.json", Options{Threads: 2, Chunk: 64})
	all := callersOf(t, m, 4, []int32{1, 2}, []int32{3})
	all[1].ids = []int32{3, 4, 5, 6}
	all[1].accepted = func() int { return 2 + 3 } // of its guesses, two
	all[2].ids = longPrompt(m.Spec.Vocab, 40, 1)  // more than its part of the pass
	others := func(c *caller) draft.Others { return ExpectedPasses(c.seq).Others }
	for _, c := range all {
		require.Zero(t, others(c))
	}
	inOnePass(m, all, nil)
	require.Equal(t, draft.Others{Tokens: 4 + 16 + 1, Gives: 3 + 1, Guesses: 3, Right: 2}, others(all[0]))
	require.Equal(t, draft.Others{Tokens: 1 + 16 + 1, Gives: 2}, others(all[1]))
	require.Equal(t, others(all[0]), others(all[3]))
	require.Zero(t, others(all[2]), "the rest of the prompt was read alone")
	require.Less(t, all[0].seq.DraftRoom(64), 64-21)
	require.Equal(t, 64-1, all[2].seq.DraftRoom(64))

	all[0].extend()
	require.Zero(t, others(all[0]))
	require.Equal(t, 64-1, all[0].seq.DraftRoom(64))
}

// TestLongPromptBesideAnswers reads a long prompt beside four answers, with given times of passes: each pass has a token of each
// answer, and takes at most three times as long as without the prompt, which takes what the answers leave. Where tokens cost
// little, the prompt takes more than before passes were measured.
func TestLongPromptBesideAnswers(t *testing.T) {
	const chunk, answers, tokens = 256, 4, 24
	for _, c := range []struct {
		name      string
		each      time.Duration // of a token of a pass
		low, high int           // tokens of the prompt in a pass
	}{
		{"computing", 2 * time.Millisecond, 40, 52}, // 2 * 48 ms
		{"dear", 100 * time.Millisecond, 6, 11},     // 2 * 440 ms
		{"waiting for flash", 100 * time.Microsecond, chunk - answers, chunk - answers},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := openFixture(t, testutil.Shared(t, "fixtures", "llama3"), "config.json", Options{Threads: 2, Chunk: chunk})
			m.passes.pretend = func(n int) time.Duration { return 40*time.Millisecond + time.Duration(n)*c.each }
			for _, n := range []int{1, 2, 4, 8, 16, 64, chunk, answers} {
				for range 40 {
					m.passes.times.Took(n, m.passes.pretend(n), 0)
				}
			}
			awaitAll(m)
			var running sync.WaitGroup
			errs, passes := make([]error, answers+1), 0
			var parts []int
			release := holdModel(m)
			for i := range answers {
				running.Go(func() { _, errs[i] = answerPrompt(m, []int32{int32(i)}, tokens) })
			}
			running.Go(func() {
				s, err := m.NewSequence(0)
				if errs[answers] = err; err != nil {
					return
				}
				defer s.Close()
				read := 0
				errs[answers] = m.Extend(t.Context(), s, longPrompt(m.Spec.Vocab, 480, 3), &ExtendOptions{Progress: func(done, _ int) {
					parts, read = append(parts, done-read), done
				}})
			})
			waitFor(m, answers+1)
			release()
			running.Wait()
			require.NoError(t, errors.Join(errs...))
			passes = int(Passes(m).Passes)
			require.Equal(t, max(tokens, len(parts)), passes, "no answer waits for a pass")
			for i, n := range parts[:min(len(parts), tokens)-1] {
				require.LessOrEqual(t, n, c.high, "pass %d of %v", i, parts)
				require.GreaterOrEqual(t, n, c.low, "pass %d of %v", i, parts)
			}
		})
	}
}

// TestPromptsThatComeTogether has prompts wait beside answers, in passes of 40 ms and 10 ms a token: one prompt makes a pass of an answer three
// times as long, and six prompts beside one answer six times as much. Beside six answers they wait as one does.
func TestPromptsThatComeTogether(t *testing.T) {
	m := openFixture(t, testutil.Shared(t, "fixtures", "llama3"), "config.json", Options{Threads: 2, Chunk: 256})
	for range 40 {
		for _, n := range []int{1, 2, 4, 6, 8, 16, 32, 64, 128, 256} {
			m.passes.times.Took(n, 40*time.Millisecond+time.Duration(n)*10*time.Millisecond, 0)
		}
	}
	for _, c := range []struct{ answers, prompts, low, high int }{
		{1, 1, 9, 11}, {1, 6, 80, 90}, {3, 6, 34, 40}, {6, 6, 18, 21}, {6, 1, 18, 21},
	} {
		q := &m.passes
		for i, p := range callersOf(t, m, c.answers+c.prompts, nil, []int32{3}) {
			if p.seq.piece.ids = p.ids; i >= c.answers {
				p.seq.piece.ids = longPrompt(m.Spec.Vocab, 60, 1)
			}
			p.seq.piece.begin(&ExtendOptions{}, 0, len(p.seq.piece.ids)-1)
			q.submit(t.Context(), &p.seq.piece)
		}
		q.choose(m)
		answers, prompts := 0, 0
		for _, p := range q.chosen {
			if len(p.ids) == 1 {
				answers += p.taken
			} else {
				prompts += p.taken
			}
		}
		require.Equal(t, c.answers, answers)
		require.GreaterOrEqual(t, prompts, c.low, "%+v", c)
		require.LessOrEqual(t, prompts, c.high, "%+v", c)
		q.chosen, q.waiting = q.chosen[:0], nil
	}
}

// TestPassTimesOfAnswers learns what passes take from those of answers first, and forgets it with the plan.
func TestPassTimesOfAnswers(t *testing.T) {
	m := openFixture(t, smallFixture(t, "llama3"), "config.json", Options{Threads: 2, Chunk: 32})
	c := callersOf(t, m, 1, []int32{1, 2}, []int32{3})[0]
	expected := func() draft.Passes { return ExpectedPasses(c.seq) }
	c.extend()
	measured := expected()
	require.False(t, measured.Measured(), "prompts")
	c.accepted = func() int { return 4 }
	c.extend()
	measured = expected()
	require.True(t, measured.Measured())
	m.passes.times.Took(1, time.Hour, 0)
	require.NotEqual(t, measured, expected())
	m.passes.expect(nil)
	measured = expected()
	require.False(t, measured.Measured())
}
