package exec

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// answer is a prompt and the tokens that a model generates behind it.
type answer struct {
	prompt, ids []int32
	adapters    []AdapterWeight
	logits      [][]float32 // from which each of ids was taken
}

// prompts returns prompts of different lengths, some of them longer than a chunk.
func prompts(vocab, n int) (out []*answer) {
	for i := range n {
		out = append(out, &answer{prompt: longPrompt(vocab, 3+i*29%97, uint64(i))})
	}
	return out
}

// answerPrompt generates some tokens on a sequence of its own.
func answerPrompt(m *Model, prompt []int32, tokens int) (*answer, error) {
	return answerWith(m, prompt, tokens, nil)
}

// answerWith is answerPrompt with adapters.
func answerWith(m *Model, prompt []int32, tokens int, adapters []AdapterWeight) (*answer, error) {
	s, err := m.NewSequence(0)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := UseAdapters(s, adapters); err != nil {
		return nil, err
	}
	s.Expect(len(prompt) + tokens)
	a := &answer{prompt: prompt}
	next := prompt
	for range tokens {
		err := m.Extend(context.Background(), s, next, &ExtendOptions{Each: func(_ int, logits []float32) error {
			a.ids, a.logits = append(a.ids, argmax(logits)), append(a.logits, slices.Clone(logits))
			return nil
		}})
		if err != nil {
			return nil, err
		}
		next = a.ids[len(a.ids)-1:]
	}
	return a, nil
}

// awaitAll makes the passes of a model wait for all callers of the pass before, so that what shares a
// pass does not depend on the machine.
func awaitAll(m *Model) { m.passes.leastGrace, m.passes.grace = time.Minute, time.Minute }

// together answers all prompts at the same time. All of them wait before the first pass runs.
func together(t *testing.T, m *Model, all []*answer, tokens int) (out []*answer) {
	t.Helper()
	out = make([]*answer, len(all))
	errs := make([]error, len(all))
	release := holdModel(m)
	var running sync.WaitGroup
	for i := range all {
		running.Go(func() { out[i], errs[i] = answerWith(m, all[i].prompt, tokens, all[i].adapters) })
	}
	waitFor(m, len(all))
	release()
	running.Wait()
	require.NoError(t, errors.Join(errs...))
	return out
}

// requireSameTogether compares answers that share passes with answers that do not.
func requireSameTogether(t *testing.T, alone, shared *Model, n, tokens int) {
	t.Helper()
	all := prompts(alone.Spec.Vocab, n)
	for i, got := range together(t, shared, all, tokens) {
		want, err := answerPrompt(alone, all[i].prompt, tokens)
		require.NoError(t, err)
		require.Equal(t, want.ids, got.ids, "prompt %d", i)
		require.Equal(t, want.logits, got.logits, "prompt %d", i)
	}
}

// TestSharedPassesGiveTheSameLogits generates answers at the same time, for every fixture: resident,
// with pages and weights on flash.
func TestSharedPassesGiveTheSameLogits(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			alone := openFixture(t, dir, "config.json", Options{Threads: 1, Chunk: 256, KV: kv.K8V8})
			requireSameTogether(t, alone, openFixture(t, dir, "config.json", Options{Threads: 2, Chunk: 40, KV: kv.K8V8}), 6, 6)
			cold := Options{Threads: 2, Chunk: 24, KV: kv.K8V8, Budget: tiering.New(0), KVHot: 1, KVRing: 1 << 14}
			cold.KVSpill = kv.NewScratch(vfs.OS(), t.TempDir(), cold.Budget)
			requireSameTogether(t, alone, openFixture(t, dir, "config.json", cold), 4, 4)
			spec := alone.Spec
			plan := &tiering.Plan{Pinned: make([]int64, len(spec.Layers)), Piece: 1 << 16, Ring: 8 << 16, StreamedPerToken: 1, ExpertSlots: min(4, spec.Experts*len(spec.Layers))}
			streamed := loadPart(t, openPack(t, modeltest.ImportModel(t, vfs.OS(), dir)), Options{Threads: 2, Chunk: 24, KV: kv.K8V8, Plan: plan})
			requireSameTogether(t, alone, streamed, 4, 4)
		})
	}
}

// TestSharedPassesSelectPages generates answers behind long texts with page selection.
func TestSharedPassesSelectPages(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	for _, hot := range []int64{0, 1} {
		o := Options{Threads: 2, KV: kv.K8V8, Chunk: 256, Select: Selection{Fraction: 0.1}}
		alone := openFixture(t, dir, "config.json", o)
		if o.KVHot = hot; hot > 0 {
			o.Budget = tiering.New(0)
			o.KVSpill = kv.NewScratch(vfs.OS(), t.TempDir(), o.Budget)
		}
		shared := openFixture(t, dir, "config.json", o)
		var all []*answer
		for i := range 3 {
			all = append(all, &answer{prompt: longPrompt(alone.Spec.Vocab, 2400+100*i, uint64(i))})
		}
		for i, got := range together(t, shared, all, 3) {
			want, err := answerPrompt(alone, all[i].prompt, 3)
			require.NoError(t, err)
			require.Equal(t, want.logits, got.logits, "prompt %d", i)
		}
	}
}

// TestAnswersShareEachPass counts the passes of eight answers.
func TestAnswersShareEachPass(t *testing.T) {
	const sequences, tokens = 8, 64
	m := openFixture(t, testutil.Shared(t, "fixtures", "llama3"), "config.json", Options{Threads: 2, Chunk: 64})
	awaitAll(m)
	all := make([]*answer, sequences)
	for i := range all {
		all[i] = &answer{prompt: longPrompt(m.Spec.Vocab, 4, uint64(i))}
	}
	together(t, m, all, tokens)
	stats := Passes(m)
	require.EqualValues(t, sequences*(4+tokens-1), stats.Tokens)
	require.EqualValues(t, tokens, stats.Passes)
}

// TestPromptBesideAnswer reads a long prompt while an answer is generated: each pass has the next token
// of the answer and a part of the prompt.
func TestPromptBesideAnswer(t *testing.T) {
	const chunk, part, tokens = 64, 64 / promptDivisor, 20
	m := openFixture(t, testutil.Shared(t, "fixtures", "llama3"), "config.json", Options{Threads: 2, Chunk: chunk})
	prompt := longPrompt(m.Spec.Vocab, part*(tokens-2)+shortPiece, 3) // the rest goes through one pass
	awaitAll(m)
	var parts []int
	errs := make(chan error, 2)
	goOn := holdModel(m)
	go func() {
		_, err := answerPrompt(m, []int32{5}, tokens)
		errs <- err
	}()
	go func() {
		s, err := m.NewSequence(0)
		if err == nil {
			err = m.Extend(t.Context(), s, prompt, &ExtendOptions{Progress: func(done, _ int) { parts = append(parts, done) }})
			s.Close()
		}
		errs <- err
	}()
	waitFor(m, 2)
	goOn()
	require.NoError(t, errors.Join(<-errs, <-errs))
	require.EqualValues(t, tokens, Passes(m).Passes)
	require.Len(t, parts, tokens-1)
	for i, done := range parts[:tokens-2] {
		require.Equal(t, part*(i+1), done)
	}
}

// TestPromptBesideLateAnswer reads a long prompt while the caller of an answer is late: the first passes are short, so that it would not wait
// for a whole chunk. They are not when it rests.
func TestPromptBesideLateAnswer(t *testing.T) {
	const chunk, part = 64, 64 / promptDivisor
	m := openFixture(t, testutil.Shared(t, "fixtures", "llama3"), "config.json", Options{Threads: 2, Chunk: chunk})
	for rests, want := range map[bool][]int{false: {part, 2 * part, 3 * part, 4 * part, 4*part + chunk}, true: {chunk, 2 * chunk}} {
		late, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, m.Extend(t.Context(), late, []int32{5}, &ExtendOptions{Each: func(int, []float32) error { return nil }}))
		if rests {
			late.Rest()
		}
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		var parts []int
		prompt := longPrompt(m.Spec.Vocab, 2*chunk, 3)
		require.NoError(t, m.Extend(t.Context(), s, prompt, &ExtendOptions{Progress: func(done, _ int) { parts = append(parts, done) }}))
		require.Equal(t, want, parts)
		late.Close()
		s.Close()
	}
}

// TestManySequencesInSmallChunks runs more sequences than a pass has tokens: none starves.
func TestManySequencesInSmallChunks(t *testing.T) {
	dir := testutil.Shared(t, "fixtures", "qwen3")
	alone := openFixture(t, dir, "config.json", Options{Threads: 1, Chunk: 64, KV: kv.K8V8})
	for _, chunk := range []int{1, 3} {
		requireSameTogether(t, alone, openFixture(t, dir, "config.json", Options{Threads: 2, Chunk: chunk, KV: kv.K8V8}), 9, 3)
	}
}

// holdModel keeps passes from running until the returned function is called.
func holdModel(m *Model) (release func()) {
	m.mu.Lock()
	return m.mu.Unlock
}

// waitFor waits until so many pieces wait for a pass.
func waitFor(m *Model, n int) {
	for m.passes.length() < n {
		runtime.Gosched()
	}
}

func (q *sharedPasses) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// TestSharedDecodeAllocatesNothing decodes two warm branches of a prompt in the same passes.
func TestSharedDecodeAllocatesNothing(t *testing.T) {
	for _, dir := range modeltest.FixtureDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m := openFixture(t, dir, "config.json", Options{Threads: 2})
			goOn, done := make(chan struct{}), make(chan error)
			one := warmSequence(t, m)
			fork, err := one.Fork()
			require.NoError(t, err)
			defer fork.Close()
			decode, other := decoder(one), decoder(fork)
			awaitAll(m)
			go func() {
				for range goOn {
					done <- decode()
				}
			}()
			release := holdModel(m)
			go func() { // the first step begins with both
				waitFor(m, 2)
				release()
			}()
			before := Passes(m)
			allocs := testutil.AllocsPerRun(20, 0, func() {
				goOn <- struct{}{}
				if err := errors.Join(other(), <-done); err != nil {
					t.Fatal(err)
				}
			})
			close(goOn)
			require.Zero(t, allocs)
			after := Passes(m)
			require.Less(t, after.Passes-before.Passes, after.Tokens-before.Tokens)
		})
	}
}

// warmSequence returns a sequence of some blocks.
func warmSequence(t *testing.T, m *Model) *Sequence {
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	require.NoError(t, m.Extend(t.Context(), s, longPrompt(m.Spec.Vocab, 330, 1), &ExtendOptions{}))
	return s
}

// decoder returns a function that extends a sequence by a token.
func decoder(s *Sequence) func() error {
	s.ids = append(make([]int32, 0, 512), s.ids...)
	next := []int32{1}
	o := &ExtendOptions{Each: func(_ int, logits []float32) error { next[0] = argmax(logits); return nil }}
	ctx := context.Background()
	return func() error { return s.model.Extend(ctx, s, next, o) }
}

// TestCallersTakeLogitsAtTheSameTime has two sequences in a pass whose callbacks wait for each other: a token of one is chosen while
// another thread chooses that of the other. A sequence's own logits come in order.
func TestCallersTakeLogitsAtTheSameTime(t *testing.T) {
	m := openFixture(t, smallFixture(t, "llama3"), "config.json", Options{Threads: 2, Chunk: 32})
	all := callersOf(t, m, 2, []int32{1, 2}, []int32{3, 4, 5})
	here := []chan struct{}{make(chan struct{}), make(chan struct{})}
	for i, c := range all {
		first := true
		c.each = func() error {
			if !first {
				return nil
			}
			first = false
			close(here[i])
			select {
			case <-here[1-i]:
				return nil
			case <-time.After(time.Minute):
				return errors.New("the other callback has not begun")
			}
		}
	}
	inOnePass(m, all, nil)
	want := callersOf(t, m, 1, []int32{1, 2}, []int32{3, 4, 5})[0]
	want.extend()
	for _, c := range all {
		require.NoError(t, c.err)
		require.Equal(t, want.logits, c.logits)
	}
}
