package exec

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// importAs imports a model in a mix, "" for none, and returns the file system of m.pack.
func importAs(t *testing.T, path, mix string) vfs.FS {
	t.Helper()
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	defer f.Close()
	if mix != "" {
		require.NoError(t, f.Quantize(mix, nil))
	}
	to := vfs.NewMem()
	require.NoError(t, weights.Import(t.Context(), f, to, "m.pack", weights.ImportOptions{}))
	return to
}

// TestSequencesChooseAdapters compares sequences that choose the fixtures' adapters with models in whose weights
// they are merged: floats, packs of floats and of 8 bits, resident and streamed.
func TestSequencesChooseAdapters(t *testing.T) {
	dir := testutil.Shared(t, "fixtures", "llama32")
	names := map[string]string{"qv": testutil.Shared(t, "fixtures", "llama32", "lora_qv"), "all": testutil.Shared(t, "fixtures", "llama32", "lora_all")}
	open := map[string]func() (vfs.FS, string){
		"floats": func() (vfs.FS, string) { return vfs.OS(), dir },
		"pack":   func() (vfs.FS, string) { return importAs(t, dir, ""), "m.pack" },
		"q8":     func() (vfs.FS, string) { return importAs(t, dir, "q8"), "m.pack" },
	}
	for name, base := range open {
		t.Run(name, func(t *testing.T) {
			fsys, path := base()
			openBase := func() *modelfile.Files {
				f, err := modelfile.Open(fsys, path)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, f.Close()) })
				return f
			}
			f := openBase()
			for _, name := range []string{"qv", "all"} {
				require.NoError(t, f.KeepNamed(vfs.OS(), name, names[name]))
			}
			models := []*Model{loadPart(t, f, Options{Threads: 2, Exact: true})}
			plan := partPlan(rand.New(rand.NewPCG(3, 3)), packSpec(t, f))
			models = append(models, loadPart(t, f, Options{Threads: 2, Exact: true, Chunk: 16, Plan: plan}))
			ids := longPrompt(models[0].Spec.Vocab, 24, 7)
			without := loadPart(t, openBase(), Options{Threads: 1, Exact: true})
			for _, use := range [][]AdapterWeight{nil, {{"qv", 1}}, {{"all", 1}}, {{"qv", 1}, {"all", 0.5}}} {
				changed := openBase()
				for _, a := range use {
					scale := map[float32]string{1: "", 0.5: ":0.5"}[a.Weight]
					require.NoError(t, changed.Merge(vfs.OS(), names[a.Name]+scale))
				}
				want := allLogits(t, loadPart(t, changed, Options{Threads: 1, Exact: true}), ids)
				for _, m := range models {
					s, err := m.NewSequence(0)
					require.NoError(t, err)
					require.NoError(t, UseAdapters(s, use))
					got := extendAll(t, m, s, ids)
					requireClose(t, want, got, 1e-3)
					plain := allLogits(t, without, ids)
					require.Equal(t, use == nil, len(plain) == len(got) && equalRows(plain, got), "a sequence uses adapters without need, or not")
					s.Close()
				}
			}
		})
	}
}

func equalRows(a, b [][]float32) bool {
	for i := range a {
		for j := range a[i] {
			if a[i][j] != b[i][j] {
				return false
			}
		}
	}
	return true
}

// TestSequencesWithDifferentAdaptersShareAPass generates with no adapter, with one of two and with both at the same
// time, and compares the logits with those of each alone, to the last bit. Prompts begin alike, so that
// sequences would share pages if adapters did not count.
func TestSequencesWithDifferentAdaptersShareAPass(t *testing.T) {
	uses := [][]AdapterWeight{nil, {{"a", 1}}, {{"b", 1}}, {{"a", 0.5}, {"b", -1}}, {{"a", 1}}, nil}
	for _, name := range []string{"llama3", "qwen2_moe", "lfm2"} {
		for _, mix := range []string{"", "q8"} {
			t.Run(name+mix, func(t *testing.T) {
				f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, name))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, f.Close()) })
				fsys := vfs.NewMem()
				writeAdapter(t, fsys, "a", f, adapterKind{rank: 3, seed: 1, store: quant.F32}, besideModels[name]...)
				writeAdapter(t, fsys, "b", f, adapterKind{rank: 17, seed: 2, store: quant.F16}, besideModels[name]...)
				for _, adapter := range []string{"a", "b"} {
					require.NoError(t, f.KeepNamed(fsys, adapter, adapter))
				}
				if mix != "" {
					require.NoError(t, f.Quantize(mix, nil))
				}
				alone := loadPart(t, f, Options{Threads: 1, Chunk: 256})
				var all, want []*answer
				for i, use := range uses {
					a := &answer{prompt: longPrompt(alone.Spec.Vocab, 40+i, 1), adapters: use}
					w, err := answerWith(alone, a.prompt, 4, use)
					require.NoError(t, err)
					all, want = append(all, a), append(want, w)
				}
				require.NotEqual(t, want[0].logits[0], want[1].logits[0])
				require.NotEqual(t, want[1].logits[0], want[2].logits[0])
				plan := partPlan(rand.New(rand.NewPCG(9, 4)), packSpec(t, f))
				for _, o := range []Options{{Threads: 2, Chunk: 24}, {Threads: 3, Chunk: 100, Plan: plan}} {
					for i, got := range together(t, loadPart(t, f, o), all, 4) {
						require.Equal(t, want[i].ids, got.ids, "sequence %d", i)
						require.Equal(t, want[i].logits, got.logits, "sequence %d", i)
					}
				}
			})
		}
	}
}

// TestPrefixesKnowTheirAdapters checks that a sequence takes the pages of others with the same adapters only, and
// loses its own when it changes them.
func TestPrefixesKnowTheirAdapters(t *testing.T) {
	f, err := modelfile.Open(vfs.OS(), modeltest.Fixture(t, "llama3"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	fsys := randomAdapter(t, f, besideModels["llama3"]...)
	require.NoError(t, f.KeepNamed(fsys, "a", "lora"))
	m := loadPart(t, f, Options{Threads: 1})
	ids := longPrompt(m.Spec.Vocab, 3*m.cache.PageTokens()+1, 7)
	first, err := m.NewSequence(0)
	require.NoError(t, err)
	defer first.Close()
	require.NoError(t, UseAdapters(first, []AdapterWeight{{"a", 1}}))
	extendAll(t, m, first, ids)
	for weight, adopted := range map[float32]int{0: 0, 0.5: 0, 1: len(ids) - 1} {
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, UseAdapters(s, []AdapterWeight{{"a", weight}}))
		AdoptPrefix(t.Context(), s, ids)
		require.Equal(t, adopted, s.Len(), "weight %g", weight)
		s.Close()
	}
	fork, err := first.Fork()
	require.NoError(t, err)
	require.NoError(t, UseAdapters(fork, []AdapterWeight{{"a", 1}}))
	require.Equal(t, len(ids), fork.Len(), "the adapters are the same")
	require.NoError(t, UseAdapters(fork, nil))
	require.Zero(t, fork.Len())
	fork.Close()
	require.ErrorIs(t, UseAdapters(first, []AdapterWeight{{"b", 1}}), ErrNoAdapter)
	require.Equal(t, len(ids), first.Len())
}
