package prefetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

const page = vfs.DirectAlign

// storedFile is a source whose units begin with a byte that identifies them.
type storedFile struct {
	file   vfs.File
	begin  int64 // offset of the source in the file
	size   int64
	unit   int
	checks atomic.Int64 // number of checked units
}

var errDamaged = errors.New("damaged")

func (s *storedFile) Stored(off, n int64) (vfs.File, int64) {
	if off%int64(s.unit) != 0 || n%int64(s.unit) != 0 && off+n != s.size {
		return nil, 0
	}
	return s.file, s.begin + off
}

func (s *storedFile) Unit() int { return s.unit }

func (s *storedFile) Check(p []byte, off int64) error {
	for ; len(p) > 0; p = p[min(s.unit, len(p)):] {
		if off%int64(s.unit) != 0 || p[0] != mark(off/int64(s.unit)) {
			return errDamaged
		}
		s.checks.Add(1)
		off += int64(s.unit)
	}
	return nil
}

func (s *storedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.file.ReadAt(p, s.begin+off)
	if err != nil {
		return n, err
	}
	return n, s.Check(p, off)
}

func mark(unit int64) byte { return byte(unit*7 + 1) }

// newStored writes a source of a size and opens it with fsys.
func newStored(t *testing.T, fsys vfs.FS, rng *rand.Rand, begin, size int64, unit int) *storedFile {
	data := make([]byte, vfs.DirectSize(begin+size))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for i := int64(0); i*int64(unit) < size; i++ {
		data[begin+i*int64(unit)] = mark(i)
	}
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, vfs.WriteFile(vfs.OS(), name, data))
	file, err := vfs.OpenDirect(fsys, name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return &storedFile{file: file, begin: begin, size: size, unit: unit}
}

// newQueued is newStream for a stream that uses the system's read queue. It skips the
// test if there is none.
func newQueued(t *testing.T, ring Ring, seq Sequence) *Stream {
	s := newStream(t, 2, ring, seq)
	s.user.RunParts = concurrently
	if s.queued.unavailable || !vfs.Queueable(seq.run(0).From.(*storedFile).file) {
		t.Skip("this system has no read queue for these files")
	}
	require.True(t, s.queued.on)
	return s
}

func alignedRing(piece, slots, slack int) Ring {
	memory := vfs.AlignDirect(make([]byte, piece*slots+slack+page))
	return Ring{Memory: memory[:piece*slots+slack], Piece: piece, Slots: slots}
}

// TestQueuedStreamDeliversBytesInOrder tests random sizes and checks that several
// threads verify all bytes.
func TestQueuedStreamDeliversBytesInOrder(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		unit := page << rng.IntN(2)
		piece := unit * (1 + rng.IntN(3))
		units := 1 + rng.IntN(12)
		rest := rng.IntN(unit) // size of the last unit
		stored := newStored(t, vfs.OS(), rng, int64(page*rng.IntN(3)), int64(units*unit+rest), unit)
		plain := newStored(t, vfs.OS(), rng, 0, int64(20*page), unit)
		take1 := 1 + rng.IntN(2*page)
		slots := (take1+piece-1)/piece + 1 + rng.IntN(4)
		cut := int64(rng.IntN(units)) * int64(unit)
		body := []Run{
			{From: stored, Off: cut, Size: stored.size - cut},
			{From: plain.file, Off: page, Size: int64(1+rng.IntN(19)) * page, Kind: KV},
			{From: stored, Off: 0, Size: int64(units * unit)},
		}
		tails := rng.IntN(2)
		seq := Sequence{Body: body[:3-tails], Tail: body[3-tails:]}
		s := newQueued(t, alignedRing(piece, slots, take1), seq)
		for range 4 {
			s.Begin(2 * tails)
			for i := range 3 - tails + 2*tails {
				if r := s.seq.run(i); rng.IntN(5) > 0 && r.Size >= int64(take1) {
					take(t, s, rng, i, int64(rng.IntN(2))*min(page, r.Size-int64(take1)), take1)
				}
			}
			if rng.IntN(4) > 0 { // otherwise the pass is abandoned
				s.Finish()
			}
		}
		s.Close()
	}
}

// concurrently runs all parts at the same time.
func concurrently(parts int, part func(part, worker int)) {
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() { part(i, i) })
	}
	all.Wait()
}

func TestQueuedStreamChecksEachPieceOnce(t *testing.T) {
	from := newStored(t, vfs.OS(), rand.New(rand.NewPCG(1, 1)), 0, 8*page, page)
	s := newQueued(t, alignedRing(2*page, 3, page), Sequence{Body: []Run{{From: from, Size: 8 * page}}})
	for pass := range int64(3) {
		s.Begin(0)
		for off := int64(0); off < 8*page; {
			got, err := s.Take(t.Context(), 0, off, page/2, page/2, page/2)
			require.NoError(t, err)
			off += int64(len(got))
		}
		s.Finish()
		require.EqualValues(t, 8*(pass+1), from.checks.Load(), "number of checked units")
	}
	require.GreaterOrEqual(t, s.Stats(Weights).Bytes, int64(3*8*page))
}

// TestQueuedStreamErrorsEndThePassOnly checks that a damaged piece ends the pass with
// the error of its source, and so does a truncated file. The next pass works.
func TestQueuedStreamErrorsEndThePassOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	from := newStored(t, vfs.OS(), rng, 0, 4*page, page)
	ring := alignedRing(page, 3, page)
	s := newQueued(t, ring, Sequence{Body: []Run{{From: from, Size: 4 * page}}})
	name := from.file.Name()
	broken, err := os.OpenFile(name, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer broken.Close()
	write := func(b byte) {
		_, err := broken.WriteAt([]byte{b}, 3*page)
		require.NoError(t, err)
	}
	pass := func() error {
		s.Begin(0)
		for off := int64(0); off < 4*page; off += page {
			if _, err := s.Take(t.Context(), 0, off, page, page, page); err != nil {
				return err
			}
		}
		s.Finish()
		return nil
	}
	require.NoError(t, pass())
	write(mark(3) + 1)
	require.ErrorIs(t, pass(), errDamaged)
	write(mark(3))
	require.NoError(t, pass())

	require.NoError(t, broken.Truncate(3*page+10))
	s.Reconfigure(ring, s.seq) // drop the reads that were submitted before
	err = pass()
	require.ErrorIs(t, err, io.EOF)
	require.ErrorContains(t, err, name)
}

// shortQueue is a source of which the system's queue reads fewer bytes than there
// are.
type shortQueue struct {
	*storedFile
	less *storedFile
}

func (l shortQueue) Stored(off, n int64) (vfs.File, int64) { return l.less.Stored(off, n) }

// TestQueuedStreamFallsBackWhenTheQueueReadsShort checks that the stream reads the
// missing bytes with ReadAt and that the next pass does not use the queue.
func TestQueuedStreamFallsBackWhenTheQueueReadsShort(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	whole := newStored(t, vfs.OS(), rng, 0, 6*page, page)
	source := shortQueue{whole, newStored(t, vfs.OS(), rng, 0, 6*page, page)}
	require.NoError(t, os.Truncate(source.less.file.Name(), 0))
	s := newStream(t, 2, alignedRing(page, 3, page), Sequence{Body: []Run{{From: source, Size: 6 * page}}})
	if s.queued.unavailable || !vfs.Queueable(whole.file) {
		t.Skip("this system has no read queue for these files")
	}
	for pass := range 3 {
		require.Equal(t, pass == 0, s.queued.on && !s.queued.unavailable)
		s.Begin(0)
		take(t, s, rng, 0, 0, page)
		if pass == 0 {
			cancelled, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := s.Take(cancelled, 0, 5*page, page, page, page)
			require.True(t, err == nil || errors.Is(err, context.Canceled))
		}
		s.Finish()
	}
	require.False(t, s.queued.on)
}

func TestQueuedStreamAfterClose(t *testing.T) {
	from := newStored(t, vfs.OS(), rand.New(rand.NewPCG(9, 1)), 0, 9*page, page)
	s := newQueued(t, alignedRing(page, 4, page), Sequence{Body: []Run{{From: from, Size: 9 * page}}})
	s.Begin(0)
	s.Close()
	s.Begin(0)
	_, err := s.Take(t.Context(), 0, 0, page, page, page)
	require.ErrorIs(t, err, ErrClosed)
	s.Finish()
	s.Reconfigure(Ring{}, Sequence{})
}

func TestQueuedStreamCancelAndClose(t *testing.T) {
	slow := vfs.Throttled(vfs.OS(), page/3600, 0) // about one page an hour
	from := newStored(t, slow, rand.New(rand.NewPCG(5, 1)), 0, 100*page, page)
	s := newQueued(t, alignedRing(page, 50, page), Sequence{Body: []Run{{From: from, Size: 100 * page}}})
	s.Begin(0)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, err := s.Take(ctx, 0, 10*page, page, page, page)
	require.ErrorIs(t, err, context.Canceled)
	time.AfterFunc(10*time.Millisecond, s.Close)
	_, err = s.Take(t.Context(), 0, 20*page, page, page, page)
	require.ErrorIs(t, err, ErrClosed)
}

// TestQueuedStreamReconfigures switches between the queue and reader goroutines.
func TestQueuedStreamReconfigures(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	from := newStored(t, vfs.OS(), rng, 0, 9*page, page)
	queued := Sequence{Body: []Run{{From: from, Size: 9 * page}}}
	s := newQueued(t, alignedRing(page, 4, page), queued)
	threads := Sequence{Body: []Run{{From: from, Size: 5 * page}, {From: bytes.NewReader(content(400)), Size: 400}}}
	for i := range 6 {
		s.Begin(0)
		take(t, s, rng, 0, 0, 100)
		if i%3 > 0 {
			s.Finish()
		}
		if i%2 == 0 {
			s.Reconfigure(alignedRing(page, 3, page), threads)
			require.False(t, s.queued.on)
			s.Begin(0)
			take(t, s, rng, 0, 0, 100)
			take(t, s, rng, 1, 0, 12)
			s.Finish()
		}
		s.Reconfigure(alignedRing(2*page, 2+i, page), queued)
		require.True(t, s.queued.on)
	}
	s.Reconfigure(Ring{}, Sequence{})
	s.Begin(2)
	s.Finish()
}

func TestQueuedStreamClosesWhileNothingIsRead(t *testing.T) {
	from := newStored(t, vfs.OS(), rand.New(rand.NewPCG(9, 1)), 0, 9*page, page)
	s := newQueued(t, alignedRing(page, 4, page), Sequence{Body: []Run{{From: from, Size: 9 * page}}})
	s.Hold(true)
	s.Begin(0)
	time.AfterFunc(30*time.Millisecond, s.Close)
	_, err := s.Take(t.Context(), 0, 6*page, page, page, page)
	require.ErrorIs(t, err, ErrClosed)
}

func TestQueuedStreamAllocatesNothing(t *testing.T) {
	from := newStored(t, vfs.OS(), rand.New(rand.NewPCG(7, 1)), 0, 12*page, page)
	s := newQueued(t, alignedRing(2*page, 4, page), Sequence{Body: []Run{{From: from, Size: 12 * page}}})
	s.user.RunParts = nil // the test's RunParts allocates
	requireNoAllocations(t, s, 0, []int64{12 * page}, page/4, page, 2*page)
}
