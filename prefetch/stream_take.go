package prefetch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Take returns bytes of run i of the pass, beginning at off: whole units, at least one
// unit and at most most bytes. It waits for least bytes and returns more if they are
// ready.
// The bytes are valid until the next call of a method other than Submit. Positions
// only move forward within a pass.
func (s *Stream) Take(ctx context.Context, i int, off int64, unit, least, most int) ([]byte, error) {
	s.advance(i, off)
	if s.queued.on {
		s.mu.Lock()
		s.collectCompleted(0)
		s.mu.Unlock()
	}
	if s.position.run != i {
		return nil, fmt.Errorf("prefetch: run %d is behind the stream's position in run %d", i, s.position.run)
	}
	rest := s.seq.run(i).Size - off
	// The bytes before off may occupy one slot.
	roomy := (s.ring.Slots - 1) * s.ring.Piece
	if int64(unit) > rest || unit > min(roomy, len(s.ring.Memory)-s.ring.Slots*s.ring.Piece) {
		return nil, fmt.Errorf("prefetch: a unit of %d bytes at offset %d does not fit into the run of %d bytes or the ring", unit, off, s.seq.run(i).Size)
	}
	least = max(unit, min(least, int(min(rest, int64(most), int64(roomy)))))
	have, err := s.await(ctx, off, least)
	if err != nil {
		return nil, err
	}
	have = min(have, int64(max(unit, most)), rest)
	if s.queued.on {
		if err := s.check(i, off, have); err != nil {
			return nil, err
		}
	}
	return s.contiguous(off, unit, int(have)), nil
}

// contiguous returns whole units of the n bytes that are ready at off. A unit that
// wraps around the end of the ring is assembled in the slack.
func (s *Stream) contiguous(off int64, unit, n int) []byte {
	size := s.ring.Slots * s.ring.Piece
	from := s.ringOffset(off)
	if toEnd := size - from; n > toEnd {
		n = toEnd
		if n < unit {
			copy(s.ring.Memory[size:], s.ring.Memory[:unit-toEnd])
			n = unit
		}
	}
	n -= n % unit
	return s.ring.Memory[from : from+n]
}

// ringOffset returns the position in the ring of an offset of the current run.
func (s *Stream) ringOffset(off int64) int {
	piece := int64(s.ring.Piece)
	number := s.position.piece + off/piece
	return int(number%int64(s.ring.Slots)*piece + off%piece)
}

// await waits until n bytes at an offset of the current run are ready and returns the
// number of bytes that are.
func (s *Stream) await(ctx context.Context, off int64, n int) (int64, error) {
	var began time.Time
	for {
		have, err := s.available(off, n, began)
		if errors.Is(err, errShort) {
			if err := s.retryShort(ctx, off); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil || have >= int64(n) {
			return have, err
		}
		if began.IsZero() {
			began = time.Now()
		}
		if s.queued.on {
			if err := s.awaitQueued(ctx); err != nil {
				return 0, err
			}
			continue
		}
		select {
		case <-s.completed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// available returns the number of consecutive bytes that are ready at an offset of
// the current run, and the error of a failed piece among the first n bytes. If fewer
// than n bytes are ready, it registers the user for a wake-up. began is the time at
// which the user began to wait, zero if it did not.
func (s *Stream) available(off int64, n int, began time.Time) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited.from, s.awaited.to = 0, 0
	if s.closed {
		return 0, ErrClosed
	}
	have, err := s.readyAt(off, n)
	if err == nil && have < int64(n) {
		piece := int64(s.ring.Piece)
		s.awaited.from, s.awaited.to = s.position.piece+off/piece, s.position.piece+(off+int64(n)-1)/piece+1
		if s.refused { // what is awaited is admitted
			s.work.Broadcast()
		}
	} else if !began.IsZero() {
		st, waited := &s.stats[s.seq.run(s.position.run).Kind], time.Since(began)
		st.Stalled += waited
		st.Stalls++
		s.user.Scheduler.Waited(waited)
	}
	return have, err
}

// ready reports whether the awaited pieces have completed or one of them has failed.
// The caller holds the lock.
func (s *Stream) ready() bool {
	for number := s.awaited.from; number < s.awaited.to; number++ {
		p := &s.slots[number%int64(len(s.slots))]
		if p.number != number || !p.completed {
			return false
		}
		if p.err != nil {
			break
		}
	}
	return s.awaited.to > s.awaited.from
}

// readyAt returns the number of consecutive bytes that are ready at an offset of the
// current run, and the error of a failed piece among the first n bytes. The caller
// holds the lock.
func (s *Stream) readyAt(off int64, n int) (int64, error) {
	piece := int64(s.ring.Piece)
	size := s.seq.run(s.position.run).Size
	var have int64
	for at := off / piece; at*piece < size && at-off/piece < int64(s.ring.Slots); at++ {
		number := s.position.piece + at
		p := &s.slots[number%int64(s.ring.Slots)]
		if p.number != number || !p.completed {
			break
		}
		if p.err != nil {
			if have < int64(n) {
				return have, p.err
			}
			break
		}
		have = min((at+1)*piece, size) - off
	}
	return have, nil
}
