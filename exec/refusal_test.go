package exec

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/failing"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// refusalCase is a model whose requests for memory fail one by one.
type refusalCase struct {
	files   *modelfile.Files
	tokens  int            // of the prompt; four more follow one by one
	options func() Options // with a ledger of their own
	saved   bool           // saves the sequence and restores it in a second model
	replan  []*tiering.Plan
	stride  int // tests every stride-th request; 0: all
}

// refusalWork is one run of a case.
type refusalWork struct {
	t *testing.T
	refusalCase
	ids  []int32
	want [][]float32 // logits of the last five tokens
	// retry repeats a step that failed, which must then give the right logits.
	retry bool
	first error // of the steps that failed
}

// failedStep notes the error of a step and reports whether the step is to be repeated.
func (w *refusalWork) failedStep(err error) bool {
	if err == nil {
		return false
	}
	again := w.retry && w.first == nil
	w.first = errors.Join(w.first, err)
	return again
}

// do loads the model, reads the prompt and four tokens, and closes the model.
func (w *refusalWork) do() error {
	w.first = nil
	fsys := vfs.NewMem()
	w.use(fsys)
	if w.saved && w.first == nil {
		w.use(fsys) // restores what the first model has saved
	}
	return w.first
}

// use loads and closes a model.
func (w *refusalWork) use(fsys vfs.FS) {
	o := w.options()
	m, err := Load(context.Background(), w.files, o)
	if err != nil {
		w.failedStep(err)
		return
	}
	defer func() {
		m.Close()
		require.NoError(w.t, o.Budget.Check())
	}()
	s, err := m.NewSequence(0)
	if w.failedStep(err) {
		s, err = m.NewSequence(0)
		require.NoError(w.t, err, "the repeated step")
	}
	if err != nil {
		return
	}
	defer func() { s.Close() }()
	if w.saved {
		w.restore(m, s, fsys)
	}
	if w.generate(m, s) && w.saved {
		w.save(m, s, fsys)
	}
}

// generate reads the tokens of the case, and changes the plan in between.
func (w *refusalWork) generate(m *Model, s *Sequence) bool {
	n := len(w.ids) - 4
	if s.Len() < n && !w.extend(m, s, w.ids[s.Len():n]) {
		return false
	}
	for i, id := range w.ids[n:] {
		if !w.extend(m, s, []int32{id}) {
			return false
		}
		if i < len(w.replan) {
			w.failedStep(m.Replan(context.Background(), w.replan[i]))
		}
	}
	f, err := s.Fork()
	if w.failedStep(err) {
		f, err = s.Fork()
		require.NoError(w.t, err, "the repeated fork")
	}
	if err != nil {
		return false
	}
	defer f.Close()
	f.Truncate(0)
	return true
}

// extend reads ids and compares the logits of the last one.
func (w *refusalWork) extend(m *Model, s *Sequence, ids []int32) bool {
	at := s.Len()
	step := func() error {
		return m.Extend(context.Background(), s, ids, &ExtendOptions{Each: func(pos int, logits []float32) error {
			if i := pos - (len(w.ids) - len(w.want)); i >= 0 {
				require.True(w.t, slices.Equal(w.want[i], logits), "logits at position %d", pos)
			}
			return nil
		}})
	}
	err := step()
	if err == nil {
		return true
	}
	if !w.failedStep(err) {
		return false
	}
	require.LessOrEqual(w.t, s.Len(), at+len(ids))
	ids = ids[s.Len()-at:]
	require.NoError(w.t, step(), "the repeated step")
	return true
}

func (w *refusalWork) stores(m *Model, fsys vfs.FS) (*segment.Dir, Stores) {
	dir, err := segment.OpenDir(fsys, "cache", 0)
	require.NoError(w.t, err)
	stores, err := m.OpenStores(dir, "a model")
	require.NoError(w.t, err)
	return dir, stores
}

func (w *refusalWork) save(m *Model, s *Sequence, fsys vfs.FS) {
	dir, stores := w.stores(m, fsys)
	defer func() { require.NoError(w.t, dir.Close()) }()
	_, err := s.Save(stores, s.IDs(), 1, true)
	w.failedStep(err)
}

func (w *refusalWork) restore(m *Model, s *Sequence, fsys vfs.FS) {
	dir, stores := w.stores(m, fsys)
	defer func() { require.NoError(w.t, dir.Close()) }()
	_, err := s.RestorePrefix(context.Background(), stores, w.ids)
	w.failedStep(err)
}

// memoryPack imports a fixture into memory.
func memoryPack(t *testing.T, dir string) *modelfile.Files {
	return openPack(t, modeltest.ImportModel(t, vfs.OS(), dir))
}

// streamPlan keeps only vectors in memory.
func streamPlan(t *testing.T, f *modelfile.Files) *tiering.Plan {
	return &tiering.Plan{Pinned: make([]int64, len(packSpec(t, f).Layers)), Piece: 1 << 16, Ring: 8 << 16, StreamedPerToken: 1}
}

// ledgered adds a ledger to options and, with a directory, a spiller.
func ledgered(o Options, spill bool) func() Options {
	return func() Options {
		o := o
		o.Budget = tiering.New(0)
		if spill {
			o.KV, o.KVHot, o.KVRing = kv.K8V8, 1, 1<<14
			o.KVSpill = kv.NewScratch(vfs.NewMem(), "kv", o.Budget)
		}
		return o
	}
}

// splitLedgered is ledgered for a model with half of its rows on another device.
func splitLedgered(t *testing.T, o Options) func() Options {
	cores := partners(t)[0]
	return func() Options { return cores.splitWith(t, split{single: 0.5, batch: 0.5}, o) }
}

// besideLedgered is ledgered for a model whose last layers an accelerator computes, and whose other
// layers are streamed.
func besideLedgered(t *testing.T, f *modelfile.Files, o Options) func() Options {
	plain := o
	plain.Budget = tiering.New(0)
	whole, err := Load(t.Context(), f, plain)
	require.NoError(t, err)
	t.Cleanup(whole.Close)
	first := len(whole.Spec.Layers) - 1
	o.Plan = streamPlan(t, f)
	o.Plan.Pinned = o.Plan.Pinned[:first]
	o.Accelerator = &secondAccelerator{whole: whole, first: first, context: whole.Spec.Context}
	return ledgered(o, false)
}

// refusalCases returns models of every kind of residency.
func refusalCases(t *testing.T) map[string]refusalCase {
	dense := memoryPack(t, testutil.Shared(t, "fixtures", "llama3"))
	long := memoryPack(t, longFixture(t, "llama3", 4096, 0))
	conv := memoryPack(t, testutil.Shared(t, "fixtures", "lfm2"))
	moe := memoryPack(t, expertDirs(t)[0])
	moeSpec := packSpec(t, moe)
	slots := len(moeSpec.Layers) * moeSpec.Experts
	_, mapped := packOnDisk(t, testutil.Shared(t, "fixtures", "llama3"))
	streamed, all := streamPlan(t, dense), keepAll(t, dense)
	selects := Options{Threads: 2, Chunk: 256, Select: Selection{Fraction: 0.2}}
	return map[string]refusalCase{
		"dense":        {files: dense, tokens: 20, options: ledgered(Options{Threads: 2, Chunk: 16}, false)},
		"conv":         {files: conv, tokens: 20, options: ledgered(Options{Threads: 2, Chunk: 16}, false)},
		"moe":          {files: moe, tokens: 12, options: ledgered(Options{Threads: 2, Chunk: 16, Plan: expertPlan(moeSpec, slots/2)}, false)},
		"streamed":     {files: dense, tokens: 20, options: ledgered(Options{Threads: 2, Chunk: 16, Plan: streamed}, false)},
		"mapped":       {files: mapped, tokens: 20, options: ledgered(Options{Threads: 2, Chunk: 16, Plan: all, PinFile: true}, false)},
		"promoted":     {files: mapped, tokens: 20, options: ledgered(Options{Threads: 2, Chunk: 16, Plan: all, MapFirst: true}, false)},
		"replanned":    {files: dense, tokens: 20, options: ledgered(Options{Threads: 2, Chunk: 16, Plan: streamed}, false), replan: []*tiering.Plan{all, streamed, all}},
		"split":        {files: dense, tokens: 20, options: splitLedgered(t, Options{Threads: 2, Chunk: 16, Plan: streamed}), replan: []*tiering.Plan{all, streamed, all}},
		"beside":       {files: dense, tokens: 20, options: besideLedgered(t, dense, Options{Threads: 2, Chunk: 16})},
		"cold":         {files: long, tokens: 330, options: ledgered(Options{Threads: 2, Chunk: 32}, true)},
		"cold, stream": {files: long, tokens: 330, options: ledgered(Options{Threads: 2, Chunk: 32, Plan: streamed}, true)},
		"saved":        {files: long, tokens: 330, options: ledgered(Options{Threads: 2, Chunk: 64}, false), saved: true},
		"saved, cold":  {files: long, tokens: 330, options: ledgered(Options{Threads: 2, Chunk: 64}, true), saved: true},
		"selects":      {files: long, tokens: selectTokens, options: ledgered(selects, true), saved: true, stride: 7},
	}
}

// TestEveryRefusedRequestIsClean makes request k for memory fail, for every k: of the ledger and
// of the operating system; this request alone, and all from it on. A model that cannot do without
// the memory returns ErrBudget, or that the system has none, and holds nothing afterwards. If one
// request alone failed, the repeated step gives the right logits.
func TestEveryRefusedRequestIsClean(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "cache"))
	for name, c := range refusalCases(t) {
		t.Run(name, func(t *testing.T) {
			w := &refusalWork{t: t, refusalCase: c}
			w.ids = longPrompt(packSpec(t, c.files).Vocab, c.tokens+4, 7)
			w.want = w.reference()
			for _, mode := range []failing.Mode{failing.Once, failing.Onward} {
				w.retry = mode == failing.Once
				failed, without := failing.EachRequest(t, mode, max(1, testutil.Effort(c.stride, 1)), w.do)
				require.Greater(t, failed, 3)
				t.Logf("%s: %d runs failed, %d did without the memory", mode, failed, without)
			}
		})
	}
}

// reference returns the logits of the last five tokens without failures.
func (w *refusalWork) reference() (want [][]float32) {
	o := w.options()
	m, err := Load(context.Background(), w.files, o)
	require.NoError(w.t, err)
	defer m.Close()
	s, err := m.NewSequence(0)
	require.NoError(w.t, err)
	defer s.Close()
	n := len(w.ids) - 4
	for from, to := 0, n; to <= len(w.ids); from, to = to, to+1 {
		require.NoError(w.t, m.Extend(context.Background(), s, w.ids[from:to], &ExtendOptions{Each: func(pos int, logits []float32) error {
			if pos >= n-1 {
				want = append(want, slices.Clone(logits))
			}
			return nil
		}}))
	}
	return want
}
