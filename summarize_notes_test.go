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

// TestDemoNotesAreSummarized summarizes the demo's notes: each summary has the facts that the answer to the model's own
// prompt has, and that of all notes in one document names every decision. LLMRUN_TEST_LONG=1 takes the long notes too.
func TestDemoNotesAreSummarized(t *testing.T) {
	t.Parallel()
	dir := testutil.Shared(t, "demo", "notes")
	var expected struct{ Notes []note }
	testutil.ReadJSON(t, filepath.Join(dir, "expected.json"), &expected)
	var joined strings.Builder
	var decisions []string
	engine := demo(t)
	for _, n := range expected.Notes {
		if 2*n.Tokens > affordable() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, n.File))
		require.NoError(t, err)
		joined.Write(text)
		joined.WriteString("\n")
		decisions = append(decisions, factsOf(n.Summary, "Decisions: ")...)
		t.Run(n.File, func(t *testing.T) {
			plain := n.Summary
			if !n.Reproduces {
				messages := []llmrun.Message{{Role: "user", Content: strings.TrimSuffix(string(text), "\n") + "\n\nSummarize the note."}}
				plain = complete(t, newSession(t, engine).ChatMessages(context.Background(), messages, llmrun.GenerateOptions{MaxTokens: 400})).Text
			}
			summary, err := engine.Summarize(context.Background(), llmrun.TextDocument(n.File, string(text)), llmrun.SummarizeOptions{})
			require.NoError(t, err)
			require.Equal(t, 1, summary.Computed)
			t.Logf("%s", summary.Text)
			for _, fact := range factsOf(n.Summary, "") {
				if strings.Contains(plain, fact) {
					require.Contains(t, summary.Text, fact)
				}
			}
		})
	}
	require.NotEmpty(t, decisions)
	summary, err := engine.Summarize(context.Background(), llmrun.TextDocument("all", joined.String()), llmrun.SummarizeOptions{Words: 600})
	require.NoError(t, err)
	t.Logf("%s", summary.Text)
	for _, decision := range decisions {
		require.Contains(t, summary.Text, decision)
	}
}

// factsOf returns the statements of an expected summary in the lines with a beginning.
func factsOf(summary, begin string) (facts []string) {
	for line := range strings.Lines(summary) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), begin); ok {
			if _, list, found := strings.Cut(rest, ": "); found && begin == "" {
				rest = list
			}
			facts = append(facts, strings.Split(strings.TrimSuffix(rest, "."), "; ")...)
		}
	}
	return facts
}
