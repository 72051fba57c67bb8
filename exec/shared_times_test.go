package exec

import (
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
	require.Equal(t, draft.Others{Tokens: 4 + 16 + 1, Gives: 3 + 1}, others(all[0]))
	require.Equal(t, draft.Others{Tokens: 1 + 16 + 1, Gives: 2}, others(all[1]))
	require.Equal(t, others(all[0]), others(all[3]))
	require.Zero(t, others(all[2]), "the rest of the prompt was read alone")
	require.Less(t, all[0].seq.DraftRoom(64), 64-21)
	require.Equal(t, 64-1, all[2].seq.DraftRoom(64))

	all[0].extend()
	require.Zero(t, others(all[0]))
	require.Equal(t, 64-1, all[0].seq.DraftRoom(64))
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
