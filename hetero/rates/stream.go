package rates

import (
	"context"
	"time"

	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// StreamCore streams a file of size bytes in pieces through a small ring, as a pass streams weights, for about the
// given time. It returns how many GB are read with a second of processor time, which goes into system calls, copies,
// checksums, and waking threads, as often as pieces of half a ring are taken together; 0 if ran does not tell for how long the threads of the process have run. Reads of
// file should bypass the page cache, as for Flash. budget grants the ring.
func StreamCore(budget *tiering.Budget, file vfs.File, size int64, piece int, during time.Duration, ran func() time.Duration) (gbs float64, err error) {
	const slots, taken = tiering.StreamReads, tiering.StreamReads / 2
	frame, err := tiering.AllocForReads(budget, tiering.Ring, (slots+1)*piece) // the last piece is the ring's slack
	if err != nil {
		return 0, err
	}
	defer frame.Free()
	before := ran()
	size = size / int64(piece) * int64(piece)
	s := prefetch.NewStream(
		prefetch.Threads{Readers: slots, ReserveReaders: threadpool.ReserveForReaders},
		prefetch.Ring{Memory: frame.Bytes(), Piece: piece, Slots: slots},
		prefetch.Sequence{Body: []prefetch.Run{{From: checkedFile{file}, Size: size}}})
	for start := time.Now(); err == nil && time.Since(start) < during; {
		s.Begin(0)
		for off := int64(0); err == nil && off < size && time.Since(start) < during; off += int64(taken * piece) {
			_, err = s.Take(context.Background(), 0, off, piece, taken*piece, taken*piece)
		}
		s.Finish()
	}
	s.Close()
	took := (ran() - before).Seconds()
	if err != nil || took <= 0 {
		return 0, err
	}
	return float64(s.Stats(prefetch.Weights).Bytes) / took / 1e9, nil
}

// checkedFile is a file whose bytes are checked as those of a pack are, but with nothing to compare them with.
type checkedFile struct{ vfs.File }

// ReadAt reads and checks bytes.
func (f checkedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	return n, f.check(p[:n], err)
}

// Stored implements prefetch.Stored.
func (f checkedFile) Stored(off, _ int64) (vfs.File, int64) { return f.File, off }

// Check implements prefetch.Stored.
func (f checkedFile) Check(p []byte, _ int64) error { return f.check(p, nil) }

// Unit implements prefetch.Stored.
func (checkedFile) Unit() int { return checkedUnit }

// checkedUnit is how many bytes are checked at a time: a block of a pack.
const checkedUnit = 64 << 10

func (checkedFile) check(p []byte, err error) error {
	for len(p) > 0 && err == nil {
		n := min(len(p), checkedUnit)
		crc.Update(0, p[:n])
		p = p[n:]
	}
	return err
}
