package exec

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/modeltest"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// transferred counts the bytes of a file system's reads and writes.
type transferred struct{ bytes atomic.Int64 }

func (c *transferred) count(fsys vfs.FS) vfs.FS {
	return vfs.NewFaulty(fsys, func(op vfs.Op) error {
		if op.Kind == vfs.OpRead || op.Kind == vfs.OpWrite {
			c.bytes.Add(int64(op.Len))
		}
		return nil
	})
}

// admitted returns the bytes that the scheduler of a model has admitted.
func admitted(m *Model) (bytes int64) {
	for _, class := range TransferStats(m) {
		bytes += class.Bytes
	}
	return bytes
}

// TestAllTransfersAreAdmitted counts what a model reads from flash and writes to it: weights while
// it is loaded and while it runs, KV on flash, a save of pages that are on flash already, and
// the summaries of restored pages. The scheduler admits all of it, headers of
// saved pages included.
func TestAllTransfersAreAdmitted(t *testing.T) {
	dir := longFixture(t, "llama3", 4096, 0)
	packed := modeltest.ImportModel(t, vfs.OS(), dir)
	for name, source := range map[string]convertedSource{"pack": {fsys: packed, path: "m.pack"}, "files": {fsys: vfs.OS(), path: dir}} {
		for _, stream := range []bool{false, true} {
			t.Run(name+map[bool]string{false: " resident", true: " streamed"}[stream], func(t *testing.T) {
				var c transferred
				source.fsys = c.count(source.fsys)
				f := source.open(t, nil)
				opened := c.bytes.Load()
				scratch := tiering.New(0)
				o := Options{Threads: 2, Chunk: 32, KV: kv.K8V8, KVHot: 1, KVRing: 1 << 14, Select: Selection{Fraction: 0.1}, KVSpill: kv.NewScratch(c.count(vfs.NewMem()), "kv", scratch)}
				if stream {
					o.Plan = &tiering.Plan{Pinned: make([]int64, len(packSpec(t, f).Layers)), Piece: 1 << 16, Ring: 8 << 16, StreamedPerToken: 1}
				}
				m := loadPart(t, f, o)
				loaded := c.bytes.Load() - opened
				require.Positive(t, loaded)
				const footer = 64 // of a pack that is opened for direct reads
				near := func(headers int64, when string) {
					t.Helper()
					moved := c.bytes.Load() - opened
					require.LessOrEqual(t, moved-headers, admitted(m), when)
					// A read ahead is admitted before it reads: the bytes follow.
					testutil.Eventually(t, when+": what is admitted is read", func() bool {
						return float64(admitted(m)) < 1.25*float64(c.bytes.Load()-opened)
					})
				}
				near(footer, "loaded")
				d, err := segment.OpenDir(c.count(vfs.NewMem()), "saved", 1<<30)
				require.NoError(t, err)
				stores, err := m.OpenStores(d, "fixture")
				require.NoError(t, err)
				ids := longPrompt(m.Spec.Vocab, 20*kv.BlockTokens, 7)
				s, err := m.NewSequence(0)
				require.NoError(t, err)
				require.NoError(t, m.Extend(context.Background(), s, ids, &ExtendOptions{}))
				near(footer, "computed")
				refs, err := s.Save(stores, ids, 1, true)
				require.NoError(t, err)
				require.NotEmpty(t, refs)
				near(footer, "saved")
				require.Positive(t, m.KVStats().ColdPages)
				again, err := m.NewSequence(0)
				require.NoError(t, err)
				restored, err := again.RestorePrefix(context.Background(), stores, append(ids, 1))
				require.NoError(t, err)
				require.Equal(t, len(ids), restored)
				near(footer, "restored")
				for range 3 {
					require.NoError(t, m.Extend(context.Background(), again, ids[:1], &ExtendOptions{}))
				}
				near(footer, "continued")
				s.Close()
				again.Close()
				require.NoError(t, d.Close())
			})
		}
	}
}

// TestReadsOfOthersSegmentsAreAdmitted saves a session whose segments another process has written, so that
// they are verified, and looks them up.
func TestReadsOfOthersSegmentsAreAdmitted(t *testing.T) {
	m := loadModel(t, vfs.OS(), smallFixture(t, "llama32"), Options{Threads: 1, Chunk: 32})
	ids := longPrompt(m.Spec.Vocab, 2*kv.BlockTokens, 7)
	files := vfs.NewMem()
	saved := func(fsys vfs.FS) {
		d, err := segment.OpenDir(fsys, "saved", 1<<30)
		require.NoError(t, err)
		stores, err := m.OpenStores(d, "fixture")
		require.NoError(t, err)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.NoError(t, m.Extend(t.Context(), s, ids, &ExtendOptions{}))
		refs, err := s.Save(stores, ids, 1, true)
		require.NoError(t, err)
		require.NotEmpty(t, refs)
		s.Close()
		require.NoError(t, d.Close())
	}
	saved(files)
	var c transferred
	before := admitted(m)
	saved(c.count(files))
	require.Positive(t, c.bytes.Load())
	require.Equal(t, c.bytes.Load(), admitted(m)-before)
}

// TestReadsForDevicesAreAdmitted loads a model whose last layers, or some of whose rows, another device
// computes.
func TestReadsForDevicesAreAdmitted(t *testing.T) {
	path := smallFixture(t, "llama32")
	o := Options{Threads: 1, Chunk: 16, KV: kv.K8V8}
	whole := loadModel(t, vfs.OS(), path, o)
	for name, with := range map[string]func(*Options){
		"layers": func(o *Options) {
			o.Accelerator = &secondAccelerator{whole: whole, first: 1, context: whole.Spec.Context}
		},
		"rows": func(o *Options) { *o = partners(t)[0].splitWith(t, testSplits[2], *o) },
	} {
		t.Run(name, func(t *testing.T) {
			var c transferred
			f, err := modelfile.Open(c.count(vfs.OS()), path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			opened, o := c.bytes.Load(), o
			with(&o)
			m := loadPart(t, f, o)
			require.Positive(t, c.bytes.Load()-opened)
			require.Equal(t, c.bytes.Load()-opened, admitted(m))
		})
	}
}
