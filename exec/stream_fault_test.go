package exec

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// streamed loads a pack with a plan that keeps only vectors in memory.
func streamed(t *testing.T, f *modelfile.Files) *Model { return streamedBy(t, f, 8) }

// streamedBy is streamed with a ring of so many pieces.
func streamedBy(t *testing.T, f *modelfile.Files, pieces int64) *Model {
	plan := &tiering.Plan{Pinned: make([]int64, len(packSpec(t, f).Layers)), Piece: 1 << 16, Ring: pieces << 16, StreamedPerToken: 1}
	return loadPart(t, f, Options{Threads: 2, Chunk: 16, Plan: plan})
}

// faultDirs returns fixtures with an embedding of their own and with one that is also the output
// matrix.
func faultDirs(t *testing.T) map[string]string {
	return map[string]string{"untied": testutil.Shared(t, "fixtures", "llama3"), "tied": testutil.Shared(t, "fixtures", "llama32")}
}

// TestEveryReadErrorSurfacesOnce makes read k of a generation fail, for every k, or for many where
// rows are converted. One step returns the error, which names the file and offset. The repeated
// step and all others give the right logits.
func TestEveryReadErrorSurfacesOnce(t *testing.T) {
	sources := map[string]convertedSource{"converted": {fsys: vfs.OS(), path: testutil.Shared(t, "gguf", "tiny-llama-q8_0.gguf")}}
	for name, dir := range faultDirs(t) {
		sources[name] = convertedSource{fsys: modeltest.ImportModel(t, vfs.OS(), dir), path: "m.pack"}
	}
	broken := errors.New("broken")
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			reads := failingRead{err: broken}
			source.fsys = vfs.NewFaulty(source.fsys, reads.decide)
			m := streamed(t, source.open(t, nil))
			ids := longPrompt(m.Spec.Vocab, 40, 7)
			want := allLogits(t, m, ids)
			reads.arm(math.MaxInt)
			untilDone(t, m, ids[:8], want, func(error) {})
			count, _ := reads.disarm()
			require.Greater(t, count, 10)
			for k := 0; k < count; k += 1 + count/60 { // conversions read a few rows at a time
				reads.arm(k)
				surfaced := 0
				untilDone(t, m, ids, want, func(err error) {
					surfaced++
					require.ErrorIs(t, err, broken)
					var where *vfs.IOError
					require.ErrorAs(t, err, &where)
					require.Equal(t, source.path, where.Path)
					require.Positive(t, where.Off)
				})
				_, injected := reads.disarm()
				require.Equal(t, 1, injected, "read %d", k)
				require.Equal(t, 1, surfaced, "read %d", k)
			}
		})
	}
}

// failingRead makes one read fail. Threads that prefetch read at any moment, so one mutex orders their reads and the
// moment from which reads are counted.
type failingRead struct {
	err error

	mu       sync.Mutex
	armed    bool
	at       int // index of the read that fails, counted from arm on
	reads    int // reads since arm
	injected int // reads that failed
}

// arm counts reads from now on, and makes read k of them fail.
func (f *failingRead) arm(k int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.reads, f.injected = true, k, 0, 0
}

// disarm makes no read fail from now on, and returns how many reads there were since arm and how many failed.
func (f *failingRead) disarm() (reads, injected int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.reads, f.injected
}

// decide is the fault of a file system.
func (f *failingRead) decide(op vfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op.Kind != vfs.OpRead || !f.armed {
		return nil
	}
	f.reads++
	if f.reads-1 != f.at {
		return nil
	}
	f.injected++
	return f.err
}

// untilDone reads ids, a few at first and then one by one, and compares the logits. It repeats a
// step that fails.
func untilDone(t *testing.T, m *Model, ids []int32, want [][]float32, failed func(error)) {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	for n := 5; s.Len() < len(ids); n = 1 {
		at := s.Len()
		err := m.Extend(context.Background(), s, ids[at:at+n], &ExtendOptions{Each: func(pos int, logits []float32) error {
			require.Equal(t, want[pos], logits, "position %d", pos)
			return nil
		}})
		if err != nil {
			failed(err)
			require.Equal(t, at, s.Len())
			n = 5 - at
			err = m.Extend(context.Background(), s, ids[at:at+max(1, n)], &ExtendOptions{})
			require.NoError(t, err, "the same step, tried again")
		}
	}
}

// TestTruncatedPack truncates a pack while it is used: the request ends with an error that names
// the file and offset. Another model is not affected, and once the file is complete again, the
// first model works too.
func TestTruncatedPack(t *testing.T) {
	for name, dir := range faultDirs(t) {
		t.Run(name, func(t *testing.T) {
			mem := modeltest.ImportModel(t, vfs.OS(), dir)
			data, err := vfs.ReadFile(mem, "m.pack", 1<<30)
			require.NoError(t, err)
			var models [2]*Model
			var paths [2]string
			for i := range models {
				paths[i] = filepath.Join(t.TempDir(), "m.pack")
				require.NoError(t, os.WriteFile(paths[i], data, 0o600))
				f, err := modelfile.Open(vfs.OS(), paths[i])
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, f.Close()) })
				models[i] = streamed(t, f)
			}
			ids := longPrompt(models[0].Spec.Vocab, 60, 7)
			want := allLogits(t, models[1], ids)
			s, err := models[0].NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			require.Equal(t, want[:20], extendAll(t, models[0], s, ids[:20]))

			require.NoError(t, os.Truncate(paths[0], int64(len(data)/3)))
			// Prefetched bytes may suffice for a token.
			for range 3 {
				if err = models[0].Extend(context.Background(), s, ids[s.Len():s.Len()+1], &ExtendOptions{}); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, store.ErrTruncated)
			var where *store.FormatError
			require.ErrorAs(t, err, &where)
			require.Equal(t, paths[0], where.Path)
			require.GreaterOrEqual(t, where.Off, int64(len(data)/3)/4096*4096)
			require.Less(t, where.Off, int64(len(data)))
			require.Equal(t, want, allLogits(t, models[1], ids), "another model is not affected")

			require.NoError(t, os.WriteFile(paths[0], data, 0o600))
			at := s.Len()
			require.Equal(t, want[at:], extendAll(t, models[0], s, ids[at:]))
		})
	}
}

// TestCancelInAStall cancels requests while flash does not respond, at every read of a step.
// Each returns at once, and all memory is freed in the end. The ring holds less than half of the weights of a step, so
// that a step cannot end with prefetched weights alone.
func TestCancelInAStall(t *testing.T) {
	noneLeft := testutil.NoGoroutinesLeft(t)
	for name, dir := range faultDirs(t) {
		t.Run(name, func(t *testing.T) {
			stall := newStall()
			f := openPack(t, vfs.NewFaulty(modeltest.ImportModel(t, vfs.OS(), dir), func(op vfs.Op) error {
				if op.Kind == vfs.OpRead {
					stall.pass()
				}
				return nil
			}))
			m := streamedBy(t, f, 4)
			ids := longPrompt(m.Spec.Vocab, 30, 7)
			want := allLogits(t, m, ids)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			require.Equal(t, want[:10], extendAll(t, m, s, ids[:10]))
			stalled, cancelled := 0, 0
			for k := range 12 {
				stall.after(k)
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				// It wants logits, because otherwise the output matrix is not read.
				o := &ExtendOptions{Each: func(int, []float32) error { return nil }}
				go func() { done <- m.Extend(ctx, s, ids[10:20], o) }()
				var err error
				select {
				case <-stall.reached:
					stalled++
					cancel()
					err = <-done
				case err = <-done:
				}
				cancel()
				// Later reads may have been for the step after this one, which then completed.
				if k == 0 || err != nil {
					require.ErrorIs(t, err, context.Canceled)
					cancelled++
				}
				s.Truncate(10)
				require.Equal(t, 10, s.Len())
				stall.end()
				require.Equal(t, want[10:20], extendAll(t, m, s, ids[10:20]))
				s.Truncate(10)
			}
			t.Logf("%d stalls, %d cancelled steps", stalled, cancelled)
		})
	}
	noneLeft() // the models are closed
}

// stall blocks operations for a while.
type stall struct {
	mu      sync.Mutex
	left    int           // operations that pass before the stall; -1: all
	gate    chan struct{} // closed at the end of the stall
	reached chan struct{} // capacity 1: an operation is blocked
}

func newStall() *stall { return &stall{left: -1, reached: make(chan struct{}, 1)} }

func (s *stall) pass() {
	s.mu.Lock()
	held := s.left == 0
	if s.left > 0 {
		s.left--
	}
	gate := s.gate
	s.mu.Unlock()
	if !held {
		return
	}
	select {
	case s.reached <- struct{}{}:
	default:
	}
	<-gate
}

// after begins a stall after n more operations.
func (s *stall) after(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.gate = n, make(chan struct{})
	select {
	case <-s.reached:
	default:
	}
}

func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = -1
	close(s.gate)
}
