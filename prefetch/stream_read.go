package prefetch

import "io"

// readLoop runs one reader goroutine.
func (s *Stream) readLoop() {
	defer s.exited.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.closed {
			return
		}
		if s.paused || s.queued.on || !s.hasFree() || !s.seekNext() {
			s.work.Wait()
			continue
		}
		grant, ok := s.admit()
		if s.refused = !ok; s.refused {
			s.work.Wait()
			continue
		}
		s.readPiece(grant)
	}
}

// hasFree reports whether the next piece's slot may be overwritten: its piece has
// been used, and no read of a skipped piece is still writing to it. The caller holds
// the lock.
func (s *Stream) hasFree() bool {
	slots := int64(len(s.slots))
	return slots > 0 && s.next-s.released < slots && !s.slots[s.next%slots].reading
}

// seekNext moves the read position to the next piece and reports whether the stream may
// read it. At the end of the body the stream waits for Begin, which determines whether
// the pass reads the tail. The caller holds the lock.
func (s *Stream) seekNext() bool {
	if len(s.seq.Body)+len(s.seq.Tail) == 0 {
		return false
	}
	for {
		if s.run >= len(s.seq.Body) && s.pass > s.currentPass {
			return false
		}
		if s.run >= len(s.seq.Body)+s.tails*len(s.seq.Tail) {
			s.pass++
			s.run, s.off = 0, 0
			continue
		}
		if s.off < s.seq.run(s.run).Size {
			return !s.held || s.pass <= s.currentPass && s.run < s.allowed
		}
		s.run++
		s.off = 0
	}
}

// nextBytes returns the size of the next piece.
func (s *Stream) nextBytes() int {
	return int(min(int64(s.ring.Piece), s.seq.run(s.run).Size-s.off))
}

// claim starts the next piece and returns its slot and its memory. The caller holds
// the lock.
func (s *Stream) claim(grant Grant) (at int, dst []byte) {
	r, n := s.seq.run(s.run), s.nextBytes()
	at = int(s.next % int64(s.ring.Slots))
	s.slots[at] = slot{number: s.next, reading: true, grant: grant, run: r, off: r.Off + s.off, bytes: n}
	s.off += int64(n)
	s.next++
	s.inFlight++
	return at, s.ring.Memory[at*s.ring.Piece:][:n]
}

// readPiece reads the next piece. The caller holds the lock; readPiece releases it
// during the read.
func (s *Stream) readPiece(grant Grant) {
	at, dst := s.claim(grant)
	p := &s.slots[at]
	r, off := p.run, p.off
	s.mu.Unlock()
	got, err := readWhole(r.From, dst, off)
	s.mu.Lock()
	s.inFlight--
	s.user.Scheduler.Done(grant)
	s.stats[r.Kind].Bytes += int64(got)
	p.reading, p.completed, p.err = false, true, err
	if s.paused && s.inFlight == 0 || p.number < s.released {
		s.work.Broadcast()
	}
	if !s.ready() {
		return // waking the user too early would take a core from other threads
	}
	select {
	case s.completed <- struct{}{}:
	default:
	}
}

// readWhole fills p or returns an error.
func readWhole(from io.ReaderAt, p []byte, off int64) (int, error) {
	n, err := from.ReadAt(p, off)
	if n == len(p) {
		err = nil // a full read may carry io.EOF
	} else if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
