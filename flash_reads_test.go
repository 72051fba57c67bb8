package llmrun_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
)

// TestFlashReadsGiveTheSameAnswer streams weights and spills, saves and restores keys and values
// with each way of reading flash.
func TestFlashReadsGiveTheSameAnswer(t *testing.T) {
	pack := wide(t)
	base := llmrun.Options{Threads: 2, Context: 512, Memory: llmrun.MemoryOptions{Chunk: 64, RAM: llmrun.NoLimit}}
	prompt, question := document(400), document(420)[400:]
	whole := newSession(t, open(t, pack, base))
	want := ids(t, whole, prompt, 4)
	wantNext := ids(t, whole, question, 4)
	for _, way := range []string{"direct", "mmap"} {
		o := base
		o.Memory.Flash = way
		o.Cache.KVDir = t.TempDir()
		o.Memory.RAM, o.Memory.KVRAM = minimum(t, pack, o)+2<<20, 1
		e := open(t, pack, o)
		require.Equal(t, way, e.Memory().FlashReads)
		plan := e.Memory().Plan
		require.False(t, plan.Resident())
		s := openSession(t, e, "book", llmrun.SessionOptions{})
		require.Equal(t, want, ids(t, s, prompt, 4), way)
		stats := s.Stats()
		require.Positive(t, stats.DecodeFlash.Bytes)
		require.GreaterOrEqual(t, e.FlashUse().Bytes, stats.PrefillFlash.Bytes+stats.DecodeFlash.Bytes)
		require.Positive(t, e.KVUse().ColdPages)
		require.NoError(t, s.Save(""))
		require.NoError(t, s.Close())
		require.NoError(t, e.Close())
		s = openSession(t, open(t, pack, o), "book", llmrun.SessionOptions{})
		require.Equal(t, wantNext, ids(t, s, question, 4), way)
	}
}

// TestAutoReadsFlashDirectly opens a model that is too small for a comparison.
func TestAutoReadsFlashDirectly(t *testing.T) {
	pack := packed(t, writeShape(t, small(t), "q8_0"), llmrun.ImportOptions{})
	e := open(t, pack, llmrun.Options{Memory: llmrun.MemoryOptions{Flash: "auto"}})
	require.Equal(t, "direct", e.Memory().FlashReads)
	_, err := llmrun.Open(pack, llmrun.Options{Memory: llmrun.MemoryOptions{Flash: "dma"}})
	require.ErrorIs(t, err, llmrun.ErrOptions)
	require.ErrorContains(t, err, "auto, direct or mmap")
}
