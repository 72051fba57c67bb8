package exec

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// caller is one of several sequences that are extended at the same time.
type caller struct {
	seq    *Sequence
	ids    []int32
	ctx    context.Context
	cancel context.CancelFunc
	each   func() error // called before the logits are kept; nil: nothing
	logits [][]float32
	err    error

	accepted func() int // see ExtendOptions.Accepted
}

// callersOf returns sequences with the same first tokens.
func callersOf(t *testing.T, m *Model, n int, read, ids []int32) (out []*caller) {
	t.Helper()
	for range n {
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		if len(read) > 0 {
			require.NoError(t, m.Extend(t.Context(), s, read, &ExtendOptions{}))
		}
		c := &caller{seq: s, ids: ids}
		c.ctx, c.cancel = context.WithCancel(t.Context())
		t.Cleanup(c.cancel)
		out = append(out, c)
	}
	return out
}

// extend extends the sequence and wants all logits.
func (c *caller) extend() {
	c.logits = nil
	c.err = c.seq.model.Extend(c.ctx, c.seq, c.ids, &ExtendOptions{
		Want: func(int) bool { return true }, Accepted: c.accepted,
		Each: func(_ int, logits []float32) error {
			if c.each != nil {
				if err := c.each(); err != nil {
					return err
				}
			}
			c.logits = append(c.logits, slices.Clone(logits))
			return nil
		},
	})
}

// inOnePass extends all sequences in the same pass, and calls meanwhile, if it is not nil, while they
// wait for it. The first one leads the pass.
func inOnePass(m *Model, all []*caller, meanwhile func()) {
	done := make(chan struct{}, len(all))
	release := holdModel(m)
	for i, c := range all {
		go func() {
			c.extend()
			done <- struct{}{}
		}()
		for i == 0 && len(m.passes.turn) == 0 {
			runtime.Gosched()
		}
	}
	waitFor(m, len(all))
	if meanwhile != nil {
		meanwhile()
	}
	release()
	for range all {
		<-done
	}
}

// TestCancelWhileWaiting cancels a sequence that waits for a pass that another one leads, and it returns before
// the pass runs.
func TestCancelWhileWaiting(t *testing.T) {
	m := openFixture(t, smallFixture(t, "llama3"), "config.json", Options{Threads: 2, Chunk: 32})
	ids := longPrompt(m.Spec.Vocab, 3, 1)
	want := allLogits(t, m, ids)
	all := callersOf(t, m, 4, nil, ids)
	before := Passes(m)
	inOnePass(m, all, func() {
		all[1].cancel()
		for m.passes.length() > 3 {
			runtime.Gosched()
		}
	})
	require.EqualValues(t, before.Passes+1, Passes(m).Passes)
	require.ErrorIs(t, all[1].err, context.Canceled)
	for i, c := range all {
		if i != 1 {
			require.NoError(t, c.err)
			require.Equal(t, want, c.logits)
		}
	}
}

// TestOneOfSeveralFails lets one sequence of a shared pass leave it in different ways. It keeps the
// tokens of the pass, and the others get their logits in the same pass. It goes on behind these tokens,
// and computes them again, with the logits of a sequence that nothing disturbed.
func TestOneOfSeveralFails(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(all []*caller){
		"callback": func(all []*caller) { all[2].each = func() error { return broken } },
		"cancelled in the pass": func(all []*caller) {
			all[0].each = func() error { all[2].cancel(); return nil }
		},
	} {
		for _, fixture := range []string{"llama3", "lfm2"} {
			t.Run(name+" "+fixture, func(t *testing.T) {
				m := openFixture(t, smallFixture(t, fixture), "config.json", Options{Threads: 2, Chunk: 64})
				ids := longPrompt(m.Spec.Vocab, 12, 1)
				want := allLogits(t, m, ids)
				all := callersOf(t, m, 4, ids[:9], ids[9:])
				fail(all)
				before := Passes(m)
				inOnePass(m, all, nil)
				require.EqualValues(t, before.Passes+1, Passes(m).Passes)
				require.Error(t, all[2].err)
				require.Equal(t, ids, all[2].seq.IDs())
				more := allLogits(t, m, append(slices.Clip(ids), ids[0]))[12:]
				for _, c := range all {
					require.Equal(t, more, extendAll(t, m, c.seq, ids[:1]))
				}
				again := all[2].seq.Truncate(9) // to the beginning, with recurrent state
				all[2].each, all[2].ctx, all[2].ids = nil, t.Context(), ids[again:]
				all[2].extend()
				all[2].logits = all[2].logits[9-again:]
				for _, c := range all {
					require.NoError(t, c.err)
					require.Equal(t, want[9:], c.logits)
				}
			})
		}
	}
}

// TestAllCancelled cancels all sequences of a shared pass in the middle of it.
func TestAllCancelled(t *testing.T) {
	m := openFixture(t, smallFixture(t, "llama3"), "config.json", Options{Threads: 2, Chunk: 32})
	ids := longPrompt(m.Spec.Vocab, 5, 1)
	all := callersOf(t, m, 3, nil, ids)
	for _, c := range all {
		c.ctx = &cancelAfter{Context: context.Background(), calls: 1}
	}
	inOnePass(m, all, nil)
	for _, c := range all {
		require.ErrorIs(t, c.err, context.Canceled)
		require.Zero(t, c.seq.Len())
		c.ctx = t.Context()
	}
	inOnePass(m, all, nil)
	for _, c := range all {
		require.NoError(t, c.err)
		require.Equal(t, allLogits(t, m, ids), c.logits)
	}
}

// TestNoRoomForOneOfSeveral refuses the memory for one sequence of a shared pass.
func TestNoRoomForOneOfSeveral(t *testing.T) {
	budget := tiering.New(0)
	m := openFixture(t, smallFixture(t, "llama3"), "config.json", Options{Threads: 2, Chunk: 128, Budget: budget})
	ids := longPrompt(m.Spec.Vocab, 65, 1)
	want := allLogits(t, m, ids)
	all := append(callersOf(t, m, 2, ids[:63], ids[63:64]), callersOf(t, m, 1, ids[:64], ids[64:])...)
	for { // take all pages that the cache has left
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		defer s.Close()
		budget.SetLimit(budget.Usage().Total)
		if m.Extend(t.Context(), s, ids[:1], &ExtendOptions{}) != nil {
			break
		}
	}
	inOnePass(m, all, nil)
	require.ErrorIs(t, all[2].err, tiering.ErrBudget)
	require.Equal(t, 64, all[2].seq.Len())
	for _, c := range all[:2] {
		require.NoError(t, c.err)
		require.Equal(t, want[63:64], c.logits)
	}
	budget.SetLimit(0)
	all[2].extend()
	require.NoError(t, all[2].err)
	require.Equal(t, want[64:], all[2].logits)
}

// TestErrorOfSharedPassFindsItsOwner damages the pages of one sequence on flash. Only this sequence gets
// the error.
func TestErrorOfSharedPassFindsItsOwner(t *testing.T) {
	var fail atomic.Bool
	broken := errors.New("broken")
	m := coldModel(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && fail.Load() {
			return broken
		}
		return nil
	}))
	ids := longPrompt(m.Spec.Vocab, 331, 7)
	want := allLogits(t, m, ids)
	all := append(callersOf(t, m, 2, ids[:20], ids[20:22]), callersOf(t, m, 1, ids[:330], ids[330:])...)
	require.Positive(t, all[2].seq.kv.ColdPages())
	for _, c := range all[:2] { // their pages are in memory again
		require.Zero(t, c.seq.kv.ColdPages())
	}
	fail.Store(true)
	inOnePass(m, all, nil)
	fail.Store(false)
	require.ErrorIs(t, all[2].err, broken)
	for _, c := range all[:2] {
		require.NoError(t, c.err)
		require.Equal(t, want[20:22], c.logits)
	}
	all[2].extend()
	require.NoError(t, all[2].err)
	require.Equal(t, want[330:], all[2].logits)
}

// TestClosedModelFreesWaiters closes a model for whose passes sequences wait.
func TestClosedModelFreesWaiters(t *testing.T) {
	m := loadModel(t, vfs.OS(), testutil.Shared(t, "fixtures", "llama3"), Options{Threads: 2, KV: kv.K8V8})
	all := callersOf(t, m, 3, nil, []int32{1, 2})
	inOnePass(m, all, func() { m.closed = true })
	m.closed = false
	for _, c := range all {
		require.ErrorIs(t, c.err, ErrClosed)
	}
}

// TestSequenceGoesOnBehindACallbackError returns an error for the logits of each position in turn, of a
// sequence that is alone in its passes. The pass has ended properly: the sequence has the tokens of the
// pass, and goes on with the logits of a sequence that nothing disturbed. No head is computed for rows
// behind the error, and the error is returned even if it looks like one of the model's file.
func TestSequenceGoesOnBehindACallbackError(t *testing.T) {
	broken := errors.New("broken")
	for _, fixture := range []string{"llama3", "lfm2"} {
		t.Run(fixture, func(t *testing.T) {
			const chunk = 16
			m := openFixture(t, smallFixture(t, fixture), "config.json", Options{Threads: 2, Chunk: chunk})
			repairs := 0
			m.repair = func(context.Context, error) bool { repairs++; return true }
			ids := longPrompt(m.Spec.Vocab, 40, 1)
			want := allLogits(t, m, ids)
			for fails := range 36 {
				c := callersOf(t, m, 1, nil, ids[:36])[0]
				c.each = func() error {
					if len(c.logits) == fails {
						return broken
					}
					return nil
				}
				c.extend()
				require.ErrorIs(t, c.err, broken)
				end := min(36, (fails/chunk+1)*chunk)
				require.Equal(t, ids[:end], c.seq.IDs())
				require.Equal(t, end, c.seq.kv.Len())
				require.Len(t, c.logits, fails)
				for i := range c.logits {
					require.Equal(t, want[i], c.logits[i])
				}
				require.LessOrEqual(t, m.pass.mm.headReads, fails%chunk/headRows+1)
				require.Equal(t, want[end:], extendAll(t, m, c.seq, ids[end:]))
				c.seq.Close()
			}
			require.Zero(t, repairs, "an error of the caller is none of the file")
		})
	}
}

// TestCallbackErrorDropsGuesses returns an error for the logits behind each token of a pass with guesses.
// The sequence keeps the tokens that the caller accepted before.
func TestCallbackErrorDropsGuesses(t *testing.T) {
	broken := errors.New("broken")
	for _, fixture := range []string{"llama3", "lfm2"} {
		t.Run(fixture, func(t *testing.T) {
			m := openFixture(t, smallFixture(t, fixture), "config.json", Options{Threads: 2, Chunk: 32})
			ids := longPrompt(m.Spec.Vocab, 14, 1)
			want := allLogits(t, m, ids)
			for fails := range 4 {
				s := callersOf(t, m, 1, ids[:10], nil)[0].seq
				require.NoError(t, s.AllowDrafts(3))
				right := 0
				err := m.Extend(t.Context(), s, ids[10:], &ExtendOptions{
					Want: func(int) bool { return true },
					Each: func(pos int, logits []float32) error {
						require.Equal(t, want[pos], logits)
						if pos-10 == fails {
							return broken
						}
						right++
						return nil
					},
					Accepted: func() int { return 11 + right },
				})
				require.ErrorIs(t, err, broken)
				require.Equal(t, ids[:min(14, 11+fails)], s.IDs())
				if fails < 3 {
					require.Equal(t, want[11+fails:], extendAll(t, m, s, ids[11+fails:]))
				}
			}
		})
	}
}

// TestCallbackErrorWithPagesOnFlash returns an error for the logits of a token that attends to pages on
// flash. The reads for the next tokens are right.
func TestCallbackErrorWithPagesOnFlash(t *testing.T) {
	broken := errors.New("broken")
	m := coldModel(t, vfs.NewMem())
	ids := longPrompt(m.Spec.Vocab, 340, 7)
	want := allLogits(t, m, ids)
	c := callersOf(t, m, 1, ids[:330], nil)[0]
	for at := 330; at < 340; at += 2 {
		require.Positive(t, c.seq.kv.ColdPages())
		c.each, c.ids = func() error { return broken }, ids[at:at+1]
		c.extend()
		require.ErrorIs(t, c.err, broken)
		require.Equal(t, want[at+1:at+2], extendAll(t, m, c.seq, ids[at+1:at+2]))
	}
}
