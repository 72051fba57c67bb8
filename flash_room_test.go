package llmrun_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/allowance"
	"github.com/llmrun/llmrun/store/vfs"
)

// spillingOptions returns options with which a prompt of 700 tokens of the model must spill keys and
// values, in the smallest budget.
func spillingOptions(t *testing.T, path string) llmrun.Options {
	o := llmrun.Options{
		Threads: 2, Context: 4096, Memory: llmrun.MemoryOptions{Chunk: 64, KV: "f32"},
		Cache: llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true, DailyWrites: llmrun.NoLimit},
	}
	o.Memory.RAM = minimum(t, path, o)
	return o
}

// requireSameRefusal plans and opens a model, and requires the same refusal.
func requireSameRefusal(t *testing.T, path string, o llmrun.Options) string {
	t.Helper()
	rates := llmrun.PlanOptions{RatesDir: t.TempDir()}
	p, planned := llmrun.PlanMemory(t.Context(), path, o, rates)
	require.ErrorIs(t, planned, llmrun.ErrBudget)
	require.False(t, p.Runs)
	require.Equal(t, planned.Error(), p.Refused)
	_, opened := llmrun.Open(path, o)
	require.EqualError(t, opened, planned.Error())
	return planned.Error()
}

// advisedSize returns the size in a refusal behind some words.
func advisedSize(t *testing.T, refusal, behind string) int64 {
	t.Helper()
	found := regexp.MustCompile(behind + ` ([0-9.]+ [KMGT]?i?B)`).FindStringSubmatch(refusal)
	require.Len(t, found, 2, "%q in %s", behind, refusal)
	n, err := llmrun.ParseMemory(found[1])
	require.NoError(t, err)
	return n
}

// TestPlanAndOpenAgreeOnWrites: a prompt whose keys and values exceed memory and what may be
// written on the day is refused before the work, in the same words, with a budget and a limit that
// suffice.
func TestPlanAndOpenAgreeOnWrites(t *testing.T) {
	t.Parallel()
	path := wide(t)
	o := spillingOptions(t, path)
	ids := someIDs(open(t, path, o), 700)
	answer := func(o llmrun.Options) []int32 {
		one := limit(1)
		one.IgnoreEOS = true
		return complete(t, newSession(t, open(t, path, o)).GenerateIDs(context.Background(), ids, one)).IDs
	}
	want := answer(o)

	const limited = 500 << 10
	o.Cache.DailyWrites = limited
	o.Memory.PromptTokens = len(ids)
	refusal := requireSameRefusal(t, path, o)
	require.Contains(t, refusal, "a prompt of 700 tokens")
	require.Contains(t, refusal, "the daily limit of writes is reached: 0 KiB were written")

	raised, writes := o, o
	raised.Memory.RAM = advisedSize(t, refusal, "needs at least")
	require.Equal(t, want, answer(raised))
	writes.Cache.DailyWrites = advisedSize(t, refusal, "allow at least")
	writes.Cache.KVDir = t.TempDir() // nothing is written today
	require.Equal(t, want, answer(writes))
	writes.Cache.DailyWrites -= 64 << 10
	writes.Cache.KVDir = t.TempDir()
	requireSameRefusal(t, path, writes)
	raised.Memory.RAM -= 64 << 10
	raised.Cache.KVDir = t.TempDir()
	requireSameRefusal(t, path, raised)

	// What was written today counts.
	day := allowance.New(vfs.OS(), writes.Cache.KVDir, 1<<40)
	require.NoError(t, day.Take(1<<30))
	require.NoError(t, day.Close())
	writes.Cache.DailyWrites = 1<<30 + limited
	refusal = requireSameRefusal(t, path, writes)
	require.Contains(t, refusal, "1 GiB were written")
	require.Greater(t, advisedSize(t, refusal, "allow at least"), int64(1<<30))
}

// TestKnownAnswersCountAsWrites: an answer whose keys and values exceed memory and what may be written
// on the day is refused before the work, with a budget and a limit that suffice for all of it.
func TestKnownAnswersCountAsWrites(t *testing.T) {
	t.Parallel()
	path := wide(t)
	o := spillingOptions(t, path)
	o.Cache.DailyWrites = 500 << 10
	o.Memory.PromptTokens = 20
	unknown := open(t, path, o)
	ids := someIDs(unknown, 20)
	require.NoError(t, unknown.Close())

	o.Memory.AnswerTokens = 700
	refusal := requireSameRefusal(t, path, o)
	require.Contains(t, refusal, "a prompt of 20 tokens with an answer of up to 700 does not fit in memory")
	asked := o
	asked.Memory.PromptTokens, asked.Memory.AnswerTokens = 0, 0
	_, planned := llmrun.PlanMemory(t.Context(), path, asked, llmrun.PlanOptions{RatesDir: t.TempDir(), Prompt: 20, Answer: 700})
	require.EqualError(t, planned, refusal)

	raised, writes := o, o
	raised.Memory.RAM = advisedSize(t, refusal, "needs at least")
	writes.Cache.DailyWrites = advisedSize(t, refusal, "allow at least")
	for _, enough := range []llmrun.Options{raised, writes} {
		enough.Cache.KVDir = t.TempDir()       // nothing is written today
		all := limit(testutil.Effort(30, 700)) // the decision was about 700
		all.IgnoreEOS = true
		require.Len(t, complete(t, newSession(t, open(t, path, enough)).GenerateIDs(t.Context(), ids, all)).IDs, all.MaxTokens)
	}
}

// TestIDsCountLikePlannedPrompts: of a model with a chat template, the ids of a prompt are refused in the words of a plan for as
// many tokens, which may be those of texts.
func TestIDsCountLikePlannedPrompts(t *testing.T) {
	o := spillingOptions(t, demoModel)
	o.Cache.DailyWrites = 1
	asked := o
	o.Memory.PromptTokens, o.Memory.AnswerTokens = 300, 40
	_, refused := llmrun.Open(demoModel, o)
	require.ErrorIs(t, refused, llmrun.ErrWritesSpent)
	_, planned := llmrun.PlanMemory(t.Context(), demoModel, asked, llmrun.PlanOptions{RatesDir: t.TempDir(), Prompt: 300, Answer: 40})
	require.EqualError(t, planned, refused.Error())
}

// TestWritesOfUnknownPrompts: without a known prompt, the plan says from which token on the writes
// exceed the limit, and a generation refuses a longer prompt in the words of a plan for it.
func TestWritesOfUnknownPrompts(t *testing.T) {
	t.Parallel()
	path := wide(t)
	o := spillingOptions(t, path)
	o.Cache.DailyWrites = 500 << 10
	p, err := llmrun.PlanMemory(t.Context(), path, o, llmrun.PlanOptions{RatesDir: t.TempDir()})
	require.NoError(t, err)
	require.Positive(t, p.KVDepth)
	require.Less(t, p.KVDepth, 700)

	e := open(t, path, o)
	ids := someIDs(e, 700)
	complete(t, newSession(t, e).GenerateIDs(t.Context(), ids[:p.KVDepth], limit(1)))
	require.NoError(t, e.Close())

	o.Cache.KVDir = t.TempDir()
	e = open(t, path, o)
	a := collect(newSession(t, e).GenerateIDs(t.Context(), ids, limit(1)))
	require.ErrorIs(t, a.err, llmrun.ErrBudget)
	require.ErrorIs(t, a.err, llmrun.ErrWritesSpent)
	require.Zero(t, e.KVUse().Written, "it is refused before the work")
	o.Memory.PromptTokens = len(ids)
	_, planned := llmrun.PlanMemory(t.Context(), path, o, llmrun.PlanOptions{RatesDir: t.TempDir()})
	require.EqualError(t, a.err, planned.Error())
	require.NoError(t, e.Close())
	require.NoError(t, e.CheckMemory())
}

// TestMemoryReplacesWrites: keys and values that exceed the limit of writes stay in memory if it has
// room, and a run that needs no flash does not depend on the limit.
func TestMemoryReplacesWrites(t *testing.T) {
	t.Parallel()
	path := wide(t)
	o := spillingOptions(t, path)
	o.Memory.PromptTokens = 700
	o.Cache.DailyWrites = 1
	rates := llmrun.PlanOptions{RatesDir: t.TempDir()}
	refusal := requireSameRefusal(t, path, o)
	o.Memory.RAM = advisedSize(t, refusal, "needs at least")
	e := open(t, path, o)
	complete(t, newSession(t, e).GenerateIDs(t.Context(), someIDs(e, 700), limit(1)))
	require.Zero(t, e.KVUse().Written)

	o.Memory.PromptTokens = 0
	o.Memory.RAM = llmrun.NoLimit
	whole, err := llmrun.PlanMemory(t.Context(), path, o, rates)
	require.NoError(t, err)
	for _, ram := range []int64{whole.Total(), whole.Total() - 1<<20} {
		o.Memory.RAM = ram
		p, err := llmrun.PlanMemory(t.Context(), path, o, rates)
		require.NoError(t, err)
		require.Zero(t, p.KVDepth, "%d bytes hold the context", ram)
		require.Zero(t, p.KVCold)
	}
}

// TestForbiddenWritesAreTheRemedy: without writes, the refusal names the limit that would suffice, and no
// directory, because there is one.
func TestForbiddenWritesAreTheRemedy(t *testing.T) {
	path := wide(t)
	o := spillingOptions(t, path)
	o.Memory.PromptTokens = 700
	o.Context = 0
	o.Cache.DailyWrites = llmrun.NoWrites
	refusal := requireSameRefusal(t, path, o)
	require.NotContains(t, refusal, "--cache-dir")
	o.Cache.DailyWrites = advisedSize(t, refusal, "allow at least")
	o.Context = 1024
	e := open(t, path, o)
	complete(t, newSession(t, e).GenerateIDs(t.Context(), someIDs(e, 700), limit(1)))
	require.Positive(t, e.KVUse().Written)
}

// TestSavesLeaveRoomForSpills: with a limit that is just what the spills of a conversation need,
// neither the prefix cache nor saved sessions take from it.
func TestSavesLeaveRoomForSpills(t *testing.T) {
	t.Parallel()
	path := wide(t)
	o := spillingOptions(t, path)
	o.Context = 1024
	o.Memory.PromptTokens = 1024
	o.Cache.DailyWrites = 1
	o.Memory.RAM = minimum(t, path, func() llmrun.Options { free := o; free.Cache.DailyWrites = llmrun.NoLimit; return free }())
	refusal := requireSameRefusal(t, path, o)
	o.Cache.DailyWrites = advisedSize(t, refusal, "allow at least")
	o.Cache.NoKV = false
	e := open(t, path, o)
	page := e.KVUse().PageTokens
	ids := someIDs(e, 1023)
	other := newSession(t, e)
	complete(t, other.GenerateIDs(t.Context(), someIDs(e, page), limit(1))) // they fit in memory
	require.NoError(t, other.Save("notes"))
	require.NoError(t, other.Close())
	complete(t, newSession(t, e).GenerateIDs(t.Context(), ids, limit(1)))
	require.LessOrEqual(t, e.CacheWrites().Today, o.Cache.DailyWrites)
}

// TestAnswersStayInMemory: an answer that has used up what may be written goes on in memory, which the
// weights leave.
func TestAnswersStayInMemory(t *testing.T) {
	t.Parallel()
	path := wide(t)
	o := spillingOptions(t, path)
	o.Cache.DailyWrites = 500 << 10
	long := o
	long.Memory.PromptTokens = 700
	o.Memory.RAM = advisedSize(t, requireSameRefusal(t, path, long), "needs at least")
	e := open(t, path, o)
	planned := e.Memory().Plan
	require.Less(t, planned.KVDepth, 600, "the plan does not know the answer")
	answer := limit(100)
	answer.IgnoreEOS = true
	prompt := someIDs(e, planned.KVDepth-40)
	require.Len(t, complete(t, newSession(t, e).GenerateIDs(t.Context(), prompt, answer)).IDs, answer.MaxTokens)
	require.Greater(t, e.Memory().Plan.KVHot, planned.KVHot)
}

// TestAnswersEndWhereSaid: an answer whose length is not limited ends where a notice before it has said,
// not with an error in its middle, and nothing exceeds the limit of writes. If not even a short answer
// has room, the prompt is refused before the work.
func TestAnswersEndWhereSaid(t *testing.T) {
	path := wide(t)
	o := spillingOptions(t, path)
	o.Cache.DailyWrites = 1 << 20
	notice := ""
	o.Notify = func(text string) { notice = text }
	e := open(t, path, o)
	depth, written := e.Memory().Plan.KVDepth, int64(0)
	require.Greater(t, depth, 300)
	s := newSession(t, e)
	tokens := 0
	for _, err := range s.GenerateIDs(t.Context(), someIDs(e, depth-260), llmrun.GenerateOptions{IgnoreEOS: true}) {
		require.NoError(t, err)
		if tokens++; tokens == testutil.Effort(3, 1<<20) {
			break
		}
	}
	said := 0
	_, err := fmt.Sscanf(notice, "the answer may have up to %d tokens", &said)
	require.NoError(t, err, notice)
	require.GreaterOrEqual(t, said, 256)
	if s.Stats().StopReason != llmrun.StopCancelled {
		require.Equal(t, llmrun.StopContext, s.Stats().StopReason)
		require.Equal(t, said, tokens)
	}
	written = e.KVUse().Written
	require.LessOrEqual(t, written, o.Cache.DailyWrites)
	require.NoError(t, s.Close())

	s = newSession(t, e)
	failed := collect(s.GenerateIDs(t.Context(), someIDs(e, depth-100), llmrun.GenerateOptions{IgnoreEOS: true}))
	require.ErrorIs(t, failed.err, llmrun.ErrWritesSpent)
	require.Equal(t, written, e.KVUse().Written, "it is refused before the work")

	o.Cache.KVDir = t.TempDir() // nothing is written today
	o.Memory.PromptTokens, o.Memory.AnswerTokens = 20, llmrun.WholeContext
	refusal := requireSameRefusal(t, path, o)
	require.Contains(t, refusal, "with an answer that may fill the context of 2048 (limit it with -n)")
	o.Memory.RAM = advisedSize(t, refusal, "needs at least")
	require.NoError(t, open(t, path, o).Close())
	o.Memory.RAM, o.Cache.DailyWrites = e.Memory().Budget, advisedSize(t, refusal, "allow at least")
	require.NoError(t, open(t, path, o).Close())
}

// TestPlansLeaveRoomForTemplates: the plan of a prompt of some tokens and its answer leaves as much room for
// the model's chat template as opening the model for a text of so many tokens, so that both refuse it
// with the same minimum.
func TestPlansLeaveRoomForTemplates(t *testing.T) {
	o := llmrun.Options{
		Threads: 2, Context: 1024, Memory: llmrun.MemoryOptions{Chunk: 64, KV: "f32"},
		Cache: llmrun.CacheOptions{KVDir: t.TempDir(), NoKV: true, DailyWrites: llmrun.NoLimit},
	}
	o.Memory.RAM = minimum(t, demoModel, o)
	e := open(t, demoModel, o)
	text := strings.Repeat("The cat sat on the mat. ", 20)
	ids, err := e.Tokenizer().Encode(text, llmrun.EncodeOptions{})
	require.NoError(t, err)
	require.NoError(t, e.Close())
	o.Cache.DailyWrites = 1
	_, err = llmrun.PlanMemory(t.Context(), demoModel, o, llmrun.PlanOptions{RatesDir: t.TempDir(), Prompt: len(ids), Answer: 200})
	var planned, opened *llmrun.MinimumError
	require.ErrorAs(t, err, &planned)
	o.Memory.PromptTexts, o.Memory.AnswerTokens = []string{text}, 200
	_, err = llmrun.Open(demoModel, o)
	require.ErrorAs(t, err, &opened)
	require.Equal(t, opened.Minimum, planned.Minimum)
}
