package exec

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// coldModel returns a model that keeps two KV pages in memory and the others in files of fsys.
func coldModel(t *testing.T, fsys vfs.FS) *Model {
	budget := tiering.New(0)
	return openFixture(t, longFixture(t, "llama3", 4096, 0), "config.json", Options{
		Threads: 2, Chunk: 32, KV: kv.K8V8, Budget: budget, KVHot: 1, KVRing: 1 << 14,
		KVSpill: kv.NewScratch(fsys, "kv", budget),
	})
}

// TestEveryColdReadErrorSurfacesOnce makes KV read k fail, for every k. One step returns the error,
// which names the file and offset. The repeated step and all others give the right logits.
func TestEveryColdReadErrorSurfacesOnce(t *testing.T) {
	broken := errors.New("broken")
	reads := failingRead{err: broken}
	m := coldModel(t, vfs.NewFaulty(vfs.NewMem(), reads.decide))
	ids := longPrompt(m.Spec.Vocab, 330, 7)
	want := allLogits(t, m, ids)
	for k := range 30 {
		reads.arm(k)
		surfaced := 0
		untilDone(t, m, ids, want, func(err error) {
			surfaced++
			require.ErrorIs(t, err, broken)
			var where *vfs.IOError
			require.ErrorAs(t, err, &where)
			require.Contains(t, where.Path, "kv/scratch-")
			require.GreaterOrEqual(t, where.Off, int64(0))
		})
		_, injected := reads.disarm()
		require.Equal(t, 1, injected, "read %d", k)
		// A failed prefetch for a step that never ran stays unreported.
		require.LessOrEqual(t, surfaced, 1, "read %d", k)
	}
}

// damagedFS flips a bit of each read while on is set.
type damagedFS struct {
	vfs.FS
	on atomic.Bool
	at atomic.Int64 // position in thousandths of each read; 0: byte 100
}

func (d *damagedFS) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return &damagedFile{f, d}, err
}

type damagedFile struct {
	vfs.File
	fs *damagedFS
}

func (f *damagedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if f.fs.on.Load() && n > 100 {
		at := 100
		if part := int(f.fs.at.Load()); part > 0 {
			at = n * part / 1000
		}
		p[at] ^= 4
	}
	return n, err
}

// TestDecodingDetectsDamage flips bits at several places of the KV head blocks, whose
// checksums the attending threads compute for a single token.
func TestDecodingDetectsDamage(t *testing.T) {
	fsys := &damagedFS{FS: vfs.NewMem()}
	m := coldModel(t, fsys)
	ids := longPrompt(m.Spec.Vocab, 400, 7)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	extendAll(t, m, s, ids[:300])
	for part := int64(1); part < 600; part += 37 { // reads are longer than the pages they are for
		fsys.at.Store(part)
		fsys.on.Store(true)
		for err = nil; err == nil; {
			at := s.Len()
			require.Less(t, at, len(ids), "no error for a flipped bit at %d/1000", part)
			err = m.Extend(context.Background(), s, ids[at:at+1], &ExtendOptions{})
		}
		require.ErrorIs(t, err, kv.ErrCorrupt)
		fsys.on.Store(false)
		s.Truncate(300)
	}
}

// TestDamagedPagesAreRefused: a page with a wrong checksum ends the step with a typed error
// before any token results from it.
func TestDamagedPagesAreRefused(t *testing.T) {
	fsys := &damagedFS{FS: vfs.NewMem()}
	m := coldModel(t, fsys)
	ids := longPrompt(m.Spec.Vocab, 330, 7)
	want := allLogits(t, m, ids)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, want[:300], extendAll(t, m, s, ids[:300]))
	fsys.on.Store(true)
	for range 3 { // pages that were prefetched before the damage are intact
		at := s.Len()
		if err = m.Extend(context.Background(), s, ids[at:at+1], &ExtendOptions{}); err != nil {
			require.Equal(t, at, s.Len())
			break
		}
	}
	require.ErrorIs(t, err, kv.ErrCorrupt)
	var where *kv.CorruptError
	require.ErrorAs(t, err, &where)
	require.Contains(t, where.Path, "kv/scratch-")
	s.Truncate(70) // inside a page on flash
	require.ErrorIs(t, m.Extend(context.Background(), s, ids[70:71], &ExtendOptions{}), kv.ErrCorrupt)
	fsys.on.Store(false)
	require.Equal(t, want[70:], extendAll(t, m, s, ids[70:]))
}

// TestCancelInAColdStall cancels requests while flash does not respond: each returns at once,
// and all memory is freed in the end.
func TestCancelInAColdStall(t *testing.T) {
	noneLeft := testutil.NoGoroutinesLeft(t)
	t.Run("", func(t *testing.T) {
		stall := newStall()
		m := coldModel(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) error {
			if op.Kind == vfs.OpRead {
				stall.pass()
			}
			return nil
		}))
		ids := longPrompt(m.Spec.Vocab, 340, 7)
		want := allLogits(t, m, ids)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		defer s.Close()
		extendAll(t, m, s, ids[:321])
		cancelled := 0
		for k := range 8 {
			stall.after(k)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- m.Extend(ctx, s, ids[321:330], &ExtendOptions{}) }()
			select {
			case <-stall.reached:
				cancel()
				err = <-done
			case err = <-done:
			}
			cancel()
			if k == 0 || err != nil { // the ring holds fewer pages than a step reads
				require.ErrorIs(t, err, context.Canceled)
				cancelled++
				require.Equal(t, 321, s.Len())
			}
			stall.end()
			s.Truncate(321)
			require.Equal(t, want[321:330], extendAll(t, m, s, ids[321:330]))
			s.Truncate(321)
		}
		t.Logf("%d cancelled steps", cancelled)
	})
	noneLeft()
}
