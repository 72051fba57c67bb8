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

// TestDemoNotesAreSummarized summarizes the demo's notes in one document: the summary names every decision, and that of a
// part has the facts that the model finds in the note with its own prompt. LLMRUN_TEST_SWEEP=1 also summarizes each
// note by itself, and LLMRUN_TEST_LONG=1 takes the long ones too.
func TestDemoNotesAreSummarized(t *testing.T) {
	t.Parallel()
	dir := testutil.Shared(t, "demo", "notes")
	var expected struct{ Notes []note }
	testutil.ReadJSON(t, filepath.Join(dir, "expected.json"), &expected)
	engine := demo(t)
	var joined strings.Builder
	var taken []note
	brief := testutil.Effort(1, 0) == 1 && os.Getenv("LLMRUN_TEST_LONG") == ""
	for _, n := range expected.Notes {
		if 2*n.Tokens > affordable() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, n.File))
		require.NoError(t, err)
		joined.WriteString(string(text) + "\n")
		taken = append(taken, n)
		if brief {
			continue
		}
		t.Run(n.File, func(t *testing.T) {
			plain := n.Summary
			if !n.Reproduces {
				messages := []llmrun.Message{{Role: "user", Content: strings.TrimSuffix(string(text), "\n") + "\n\nSummarize the note."}}
				plain = complete(t, newSession(t, engine).ChatMessages(context.Background(), messages, llmrun.GenerateOptions{MaxTokens: 400})).Text
			}
			summary, err := engine.Summarize(context.Background(), llmrun.TextDocument(n.File, string(text)), llmrun.SummarizeOptions{})
			require.NoError(t, err)
			for _, fact := range factsOf(n.Summary, "") {
				if strings.Contains(plain, fact) {
					require.Contains(t, summary.Text, fact)
				}
			}
		})
	}
	summary, err := engine.Summarize(context.Background(), llmrun.TextDocument("all", joined.String()), llmrun.SummarizeOptions{Words: 800})
	require.NoError(t, err)
	require.Len(t, summary.Parts, len(taken))
	for i, n := range taken {
		decisions := factsOf(n.Summary, "Decisions: ")
		for _, decision := range decisions {
			require.Contains(t, summary.Text, decision)
		}
		if n.Reproduces {
			for _, fact := range factsOf(n.Summary, "") {
				require.Contains(t, summary.Parts[i].Summary, fact)
			}
		}
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

// TestTheFixedBeginningOfPromptsIsPrefilledOnce summarizes a text of several parts, and counts the tokens that are
// prefilled: what the template puts before the text is among those of the first prompt at most.
func TestTheFixedBeginningOfPromptsIsPrefilledOnce(t *testing.T) {
	t.Parallel()
	engine := demo(t)
	tokens := func(text string) []int32 {
		ids, err := engine.EncodeChat([]llmrun.Message{{Role: "user", Content: text}}, llmrun.ChatOptions{})
		require.NoError(t, err)
		return ids
	}
	fixed, first, second := 0, tokens("Kate has a boat."), tokens("The letter is in Rome.")
	for first[fixed] == second[fixed] {
		fixed++
	}
	require.Positive(t, fixed)
	var text strings.Builder
	for _, name := range []string{"Kate", "Max", "Nora", "Omar", "Ruby"} {
		text.WriteString("# " + name + "\n\n" + strings.Repeat(name+" has the old boat in Rome. ", 8) + "\n\n")
	}
	var prompts, reused []int
	summary, err := engine.Summarize(context.Background(), llmrun.TextDocument("doc", text.String()), llmrun.SummarizeOptions{
		PartTokens: 128, Words: 20, Answered: func(s llmrun.Stats) {
			prompts, reused = append(prompts, s.PromptTokens), append(reused, s.ReusedTokens)
		},
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(summary.Parts), 3)
	require.Len(t, prompts, summary.Computed+summary.ComputedMerges)
	for i, n := range reused[1:] {
		require.GreaterOrEqual(t, n, fixed, "prompt %d of %d", i+2, len(prompts))
		require.Less(t, n, prompts[i+1]/2, "the texts differ")
	}
}
