package llmrun_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
)

func TestCloseInsideLoop(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{})
	s := newSession(t, e)
	count := 0
	var failure error
	for _, err := range s.Generate(context.Background(), foxPrompt, limit(20)) {
		if failure = err; err != nil {
			break
		}
		count++
		require.NoError(t, s.Close())
	}
	require.ErrorIs(t, failure, llmrun.ErrClosed)
	require.Equal(t, 1, count)
	requireClosed(t, s)
}

// requireClosed checks the errors of all methods of a closed session.
func requireClosed(t *testing.T, s *llmrun.Session) {
	t.Helper()
	ctx := context.Background()
	require.ErrorIs(t, collect(s.Generate(ctx, "x", limit(1))).err, llmrun.ErrClosed)
	require.ErrorIs(t, collect(s.GenerateIDs(ctx, []int32{1}, limit(1))).err, llmrun.ErrClosed)
	require.ErrorIs(t, collect(s.Chat(ctx, "x", limit(1))).err, llmrun.ErrClosed)
	require.ErrorIs(t, collect(s.ChatMessages(ctx, nil, limit(1))).err, llmrun.ErrClosed)
	require.ErrorIs(t, s.Reset(), llmrun.ErrClosed)
	require.ErrorIs(t, s.SetSystem("x"), llmrun.ErrClosed)
	require.NoError(t, s.Close(), "closing twice")
}

// TestCloseFromAnotherGoroutine closes the engine during endless generations.
func TestCloseFromAnotherGoroutine(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Threads: 2})
	const count = 3
	started, ended := make(chan bool, count), make(chan error, count)
	for range count {
		s := newSession(t, e)
		go func() {
			o := limit(0)
			o.IgnoreEOS = true
			first := true
			var failure error
			for _, err := range s.Generate(context.Background(), foxPrompt, o) {
				failure = err
				if first {
					started <- true
					first = false
				}
			}
			ended <- failure // the memory is released behind the loop
		}()
	}
	for range count {
		<-started
	}
	require.NoError(t, e.Close())
	for range count {
		require.ErrorIs(t, <-ended, llmrun.ErrClosed)
	}
	require.NoError(t, e.CheckMemory())
	require.Zero(t, e.MemoryUsed())
	require.NoError(t, e.Close(), "closing twice")
}

func TestClosedEngineRefuses(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{})
	s := newSession(t, e)
	require.NoError(t, e.Close())
	requireClosed(t, s)
	_, err := e.NewSession()
	require.ErrorIs(t, err, llmrun.ErrClosed)
	_, err = e.OpenSession("x", llmrun.SessionOptions{})
	require.ErrorIs(t, err, llmrun.ErrClosed)
	_, err = e.Logits(context.Background(), []int32{1}, nil)
	require.ErrorIs(t, err, llmrun.ErrClosed)
	_, err = e.Perplexity(context.Background(), []int32{1, 2}, llmrun.PerplexityOptions{})
	require.ErrorIs(t, err, llmrun.ErrClosed)
	require.Equal(t, "llama", e.Info().Family, "the metadata stays available")
}

func TestConcurrentGenerationIsBusy(t *testing.T) {
	e := demo(t)
	want := fox(t, e, 5)
	s := newSession(t, e)
	var ids []int32
	for p, err := range s.Generate(context.Background(), foxPrompt, limit(5)) {
		require.NoError(t, err)
		ids = append(ids, p.ID)
		require.ErrorIs(t, collect(s.Generate(context.Background(), "x", limit(1))).err, llmrun.ErrBusy)
		require.ErrorIs(t, s.Reset(), llmrun.ErrBusy)
		require.ErrorIs(t, s.SetSystem("x"), llmrun.ErrBusy)
		require.Equal(t, 21+len(ids), s.Len())
		require.Equal(t, llmrun.Stats{PromptTokens: 21, Seed: s.Stats().Seed}, s.Stats(), "what is known of the generation so far")
	}
	require.Equal(t, want.IDs, ids, "the refused calls changed nothing")
}

func TestConcurrentSessionsMatchSequential(t *testing.T) {
	e := demo(t)
	prompts := []string{"Once upon a time", foxPrompt, "The king said", "In the morning"}
	want := make([]string, len(prompts))
	for i, p := range prompts {
		want[i] = complete(t, newSession(t, e).Generate(context.Background(), p, limit(12))).Text
	}
	other := open(t, demoModel, llmrun.Options{Threads: 1}) // a second engine, concurrently
	var wg sync.WaitGroup
	for i, p := range prompts {
		for _, engine := range []*llmrun.Engine{e, other} {
			s := newSession(t, engine)
			wg.Go(func() {
				a := collect(s.Generate(context.Background(), p, limit(12)))
				if a.err != nil || a.Text != want[i] {
					t.Errorf("%q: %q (%v), sequentially %q", p, a.Text, a.err, want[i])
				}
			})
		}
	}
	wg.Wait()
}

// TestNoLeaks counts goroutines, open files and mappings before and after the life of an
// engine, including sessions that are never closed.
func TestNoLeaks(t *testing.T) {
	demo(t) // the shared engine counts both times
	before := testutil.CountResources("safetensors")
	for range 2 {
		e, err := llmrun.Open(demoModel, llmrun.Options{Threads: 3})
		require.NoError(t, err)
		open := before
		open.Files++
		open.RequireFilesReturned(t, "only the weights stay open: a smaller budget streams them")
		s, err := e.NewSession()
		require.NoError(t, err)
		for range s.Generate(context.Background(), foxPrompt, limit(20)) {
			break
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		collect(s.Generate(ctx, "more", limit(1)))
		_, err = e.NewSession() // the engine closes it
		require.NoError(t, err)
		_, err = e.Logits(ctx, []int32{1, 2}, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, e.Close())
		require.NoError(t, e.CheckMemory())

		_, err = llmrun.OpenContext(ctx, demoModel, llmrun.Options{})
		require.ErrorIs(t, err, context.Canceled)
		i, err := llmrun.Inspect(demoModel, llmrun.Options{})
		require.NoError(t, err)
		require.NoError(t, i.Close())
	}
	before.RequireReturned(t, "closed engines leave nothing")
}

func TestStats(t *testing.T) {
	e := demo(t)
	s := newSession(t, e)
	require.Zero(t, s.Stats())
	complete(t, s.Generate(context.Background(), foxPrompt, limit(10)))
	first := s.Stats()
	require.Equal(t, 21, first.PromptTokens)
	require.Zero(t, first.ReusedTokens)
	require.Equal(t, 10, first.GeneratedTokens)
	require.Positive(t, first.PrefillTokPerS())
	require.Positive(t, first.DecodeTokPerS())
	require.LessOrEqual(t, first.Prefill, first.FirstToken)

	complete(t, s.Generate(context.Background(), " And", limit(1)))
	second := s.Stats()
	require.Equal(t, 32, second.PromptTokens)
	require.Equal(t, 30, second.ReusedTokens, "all but the last token, which was not processed yet, and the new one")
	require.Zero(t, second.DecodeTokPerS(), "the first token comes out of the prompt")
}

// TestMemoryGrowsWithSession checks that keys and values are allocated page by page, and that
// pages are reused.
func TestMemoryGrowsWithSession(t *testing.T) {
	e := open(t, demoModel, llmrun.Options{Memory: llmrun.MemoryOptions{Chunk: 64}})
	info := e.Info()
	loaded := e.MemoryUsed()
	require.Greater(t, loaded, info.WeightBytes)
	whole := info.KVBytesPerToken * int64(info.MaxContext)
	require.Less(t, loaded, info.WeightBytes+whole/4, "unused context takes no memory")
	use := func() int64 {
		s := newSession(t, e)
		complete(t, s.Generate(context.Background(), foxPrompt, limit(3)))
		used := e.MemoryUsed()
		require.NoError(t, s.Close())
		return used
	}
	first := use()
	require.Greater(t, first, loaded)
	require.Less(t, first, loaded+whole/4)
	for i := range 5 {
		require.Equal(t, first, use(), fmt.Sprintf("session %d reuses the pages of the previous one", i))
	}
}

// TestDecodeAllocations checks that a token allocates little on Go's heap.
func TestDecodeAllocations(t *testing.T) {
	s := newSession(t, demo(t))
	o := limit(200)
	o.IgnoreEOS = true
	o.Sampling = llmrun.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, RepeatPenalty: 1.1, Seed: seed(1)}
	next, stop := iter.Pull2(s.Generate(context.Background(), foxPrompt, o))
	defer stop()
	step := func() {
		_, err, ok := next()
		require.True(t, ok)
		require.NoError(t, err)
	}
	for range 20 {
		step()
	}
	require.LessOrEqual(t, testutil.AllocsPerRun(50, 2, step), 2.0)
}
