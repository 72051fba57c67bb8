package llmrun_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

// note is a note and the expected answers of the demo model.
type note struct {
	File      string
	Tokens    int
	Summary   string `json:"expected_summary"`
	Questions []struct {
		Question, Expected string
		Exact              bool `json:"model_exact"` // the reference model gives this answer
	}
	Reproduces bool `json:"model_reproduces_summary"` // the reference model gives this summary
}

// TestDemoNotes asks for summaries and facts. All prompts about a note begin with it, so the
// session prefills it once.
func TestDemoNotes(t *testing.T) {
	t.Parallel()
	dir := testutil.Shared(t, "demo", "notes")
	var expected struct{ Notes []note }
	testutil.ReadJSON(t, filepath.Join(dir, "expected.json"), &expected)
	require.NotEmpty(t, expected.Notes)
	for _, n := range expected.Notes {
		t.Run(n.File, func(t *testing.T) {
			if 2*n.Tokens > affordable() { // each note gets many answers
				t.Skip("a long note; LLMRUN_TEST_LONG=1 reads it")
			}
			text, err := os.ReadFile(filepath.Join(dir, n.File))
			require.NoError(t, err)
			n.check(t, strings.TrimSuffix(string(text), "\n"))
		})
	}
}

// check asks the questions that the reference model answers as expected: two of them, or all with
// LLMRUN_TEST_SWEEP=1.
func (n *note) check(t *testing.T, text string) {
	s := newSession(t, demo(t))
	asked := 0
	ask := func(question, want string) {
		messages := []llmrun.Message{{Role: "user", Content: text + "\n\n" + question}}
		a := complete(t, s.ChatMessages(context.Background(), messages, llmrun.GenerateOptions{MaxTokens: 400}))
		require.Equal(t, want, strings.TrimSpace(a.Text), question)
		if asked++; asked > 1 {
			require.GreaterOrEqual(t, s.Stats().ReusedTokens, n.Tokens, "the note was re-prefilled")
		}
	}
	if n.Reproduces {
		ask("Summarize the note.", n.Summary)
	}
	for _, q := range n.Questions {
		if q.Exact && asked <= testutil.Effort(2, len(n.Questions)) {
			ask(q.Question, q.Expected)
		}
	}
	require.NotZero(t, asked)
}
