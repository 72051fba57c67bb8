package llmrun_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// TestChosenContextAndMinimumAgree plans with picked pages, and with the memory of a prompt beside
// them, in budgets from the stated minimum on: the plan runs with a context whose minimum is at most
// the budget.
func TestChosenContextAndMinimumAgree(t *testing.T) {
	t.Parallel()
	how := llmrun.PlanOptions{RatesDir: t.TempDir()}
	for _, prompt := range []int64{0, 1 << 20, 9 << 20} {
		options := llmrun.Options{Threads: 1, Cache: llmrun.CacheOptions{KVDir: t.TempDir()}}
		options.Memory = llmrun.MemoryOptions{KVSelect: "0.1", Pin: "anon", Prompt: prompt, RAM: 1}
		p, err := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, how)
		require.ErrorIs(t, err, llmrun.ErrBudget)
		for ram := p.Minimum; ram < p.Minimum+8<<20; ram += 1 << 19 {
			options.Memory.RAM = ram
			p, err := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, how)
			require.NoError(t, err, "%d bytes", ram)
			require.LessOrEqual(t, p.Minimum, ram, "a context of %d tokens", p.Context)
		}
	}
}

// TestPlanOfAPromptAgreesWithOpen plans for a prompt in budgets around the minimum for it: PlanMemory
// refuses what Open refuses, in the same words, and predicts the whole prompt otherwise.
func TestPlanOfAPromptAgreesWithOpen(t *testing.T) {
	t.Parallel()
	how := llmrun.PlanOptions{RatesDir: t.TempDir(), Prompt: 8053, Answer: 4}
	options := llmrun.Options{Threads: 1, Memory: llmrun.MemoryOptions{Pin: "anon", RAM: 1}}
	plan := func(ram int64) (*llmrun.MemoryPlan, error) {
		options.Memory.RAM = ram
		return llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, how)
	}
	p, err := plan(1)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	least := p.Minimum
	for _, ram := range []int64{least / 2, least - 1, least} {
		p, planned := plan(ram)
		opened := options
		opened.Memory.PromptTokens = how.Prompt
		engine, err := llmrun.Open(hubmodel.Pack, opened)
		if ram < least {
			require.ErrorIs(t, planned, llmrun.ErrBudget)
			require.EqualError(t, err, planned.Error())
			continue
		}
		require.NoError(t, errors.Join(planned, err))
		require.NoError(t, engine.Close())
		require.Equal(t, how.Prompt, p.Prompt)
		require.Equal(t, how.Answer, p.Answer)
		for _, advice := range p.Advice {
			require.NotContains(t, advice.Change, "--ctx", "too short for the prompt")
		}
	}
	how.Answer = 1000
	p, err = plan(2 * least)
	require.NoError(t, err)
	require.Equal(t, how.Answer, p.Answer)

	how.Prompt = 100_000
	p, err = plan(2 * least)
	require.ErrorIs(t, err, llmrun.ErrContextFull)
	require.ErrorContains(t, err, "the sequence has 100000 tokens with the prompt; the limit is ")
	require.False(t, p.Runs)
	require.Equal(t, err.Error(), p.Refused)

	how.Prompt, options.Context = 3000, 2048
	_, err = plan(2 * least)
	require.ErrorIs(t, err, llmrun.ErrContextFull)
	require.ErrorContains(t, err, "the limit is 2048")
}

// TestTextBeyondTheContextIsRefusedAsItsPlan opens a model for texts with a few more tokens than a context, in
// a budget that is too small for it: more memory would not help, which is the error of the plan for as many tokens too.
// Texts with a few tokens less are refused for memory.
func TestTextBeyondTheContextIsRefusedAsItsPlan(t *testing.T) {
	t.Parallel()
	tokenizer, err := llmrun.OpenTokenizer(hubmodel.Pack, llmrun.Options{})
	require.NoError(t, err)
	const context = 2048
	for line, kind := range map[string]string{"the fox ran into a forest; QzXw%7\n": "lines", "xqz": "one word"} {
		tokens := func(n int) int {
			ids, err := tokenizer.Encode(strings.Repeat(line, n), llmrun.EncodeOptions{})
			require.NoError(t, err)
			return len(ids)
		}
		each := float64(tokens(400)) / 400
		for _, part := range []float64{0.9, 1.15} {
			n := int(part * context / each)
			require.Equal(t, part > 1, tokens(n) > context, "the text is of the length that the test needs")
			options := llmrun.Options{Threads: 1, Context: context, Memory: llmrun.MemoryOptions{RAM: 24 << 20}}
			_, planned := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, llmrun.PlanOptions{RatesDir: t.TempDir(), Prompt: tokens(n)})
			options.Memory.PromptTexts = []string{strings.Repeat(line, n)}
			_, err := llmrun.Open(hubmodel.Pack, options)
			for _, err := range []error{planned, err} {
				if part > 1 {
					require.ErrorIs(t, err, llmrun.ErrContextFull, "%s", kind)
					require.ErrorContains(t, err, "; the limit is 2048; use a shorter prompt, summarize it (llmrun summarize), or drop its oldest tokens (--overflow slide --allow-truncate)")
				} else {
					require.ErrorIs(t, err, llmrun.ErrBudget, "%s", kind)
				}
			}
		}
	}
}

// TestPlanOfASlidingPromptAgreesWithTheRun plans and runs prompts around the length of the context, which
// slide or not: the plan refuses those that the run refuses, in the same words, and counts the tokens that
// the run drops and keeps.
func TestPlanOfASlidingPromptAgreesWithTheRun(t *testing.T) {
	t.Parallel()
	rates, context := t.TempDir(), 128
	options := llmrun.Options{Threads: 1, Context: context, Memory: llmrun.MemoryOptions{RAM: 256 << 20}}
	engine := open(t, hubmodel.Pack, options)
	for _, overflow := range []llmrun.Overflow{llmrun.OverflowStop, llmrun.OverflowSlide} {
		for _, tokens := range []int{100, context, context + 1, 300} {
			p, planned := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, llmrun.PlanOptions{RatesDir: rates, Prompt: tokens, Answer: 1, Overflow: overflow})
			session := newSession(t, engine)
			answer := collect(session.GenerateIDs(t.Context(), someIDs(engine, tokens), llmrun.GenerateOptions{MaxTokens: 1, Overflow: overflow}))
			stats := session.Stats()
			require.NoError(t, session.Close())
			if tokens > context && overflow == llmrun.OverflowStop {
				require.ErrorIs(t, planned, llmrun.ErrContextFull)
				require.EqualError(t, answer.err, planned.Error())
				require.False(t, p.Runs)
				continue
			}
			require.NoError(t, errors.Join(planned, answer.err))
			require.True(t, p.Runs)
			require.Equal(t, stats.PromptTokens, p.Prompt, "%d tokens, %s", tokens, overflow)
			require.Equal(t, stats.ForgottenTokens, p.Forgotten)
			require.Equal(t, tokens, p.Prompt+p.Forgotten)
		}
	}
	// A context that the plan chooses needs no room for a prompt that slides.
	options.Context, options.Memory.RAM = 0, 1
	minimum := func(prompt int, overflow llmrun.Overflow) int64 {
		p, err := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, llmrun.PlanOptions{RatesDir: rates, Prompt: prompt, Overflow: overflow})
		require.ErrorIs(t, err, llmrun.ErrBudget)
		return p.Minimum
	}
	require.Equal(t, minimum(1, ""), minimum(8000, llmrun.OverflowSlide))
	require.Less(t, minimum(8000, llmrun.OverflowSlide), minimum(8000, ""))
	_, err := llmrun.PlanMemory(t.Context(), hubmodel.Pack, options, llmrun.PlanOptions{Overflow: "wrap"})
	require.ErrorIs(t, err, llmrun.ErrOptions)
}

// TestChosenContextIsReported opens models without a context: Info has the one that the plan chose, and Notify
// receives it if it is shorter than the model's.
func TestChosenContextIsReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		context  int
		ram      int64
		reported bool
	}{{0, 60 << 20, true}, {0, llmrun.NoLimit, false}, {512, 60 << 20, false}} {
		var notes []string
		e := open(t, hubmodel.Pack, llmrun.Options{Threads: 1, Context: test.context, Memory: llmrun.MemoryOptions{RAM: test.ram}, Notify: func(text string) { notes = append(notes, text) }})
		info := e.Info()
		require.Equal(t, newSession(t, e).Limit(), info.Context)
		if !test.reported {
			require.Empty(t, notes)
			continue
		}
		require.Less(t, info.Context, info.MaxContext)
		require.Len(t, notes, 1)
		require.Contains(t, notes[0], fmt.Sprintf("the context holds %d tokens, of %d that the model supports", info.Context, info.MaxContext))
	}
}
