package kv

import (
	"errors"
	"io"
	"sync"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// scratchBuffer is the size of one write, if the budget has room for it.
const scratchBuffer = 256 << 10

// Scratch is a [Spiller] that writes to an unnamed temporary file. The operating
// system deletes the file when the process ends, even after a crash.
type Scratch struct {
	fsys   vfs.FS
	dir    string
	budget *tiering.Budget
	buffer *tiering.Frame          // belongs to Spill
	allow  func(bytes int64) error // see LimitWrites

	writing sync.Mutex // held by Spill; taken before mu

	mu    sync.Mutex // guards the places of segments, never held during a write
	file  vfs.File   // nil before the first Spill
	end   int64
	holes []extent // free extents before end, ascending, not adjacent
	next  uint64   // number of the next segment, from 1; belongs to Spill
}

// NewScratch returns a spiller to a file in dir. The first Spill creates the file.
func NewScratch(fsys vfs.FS, dir string, budget *tiering.Budget) *Scratch {
	return &Scratch{fsys: fsys, dir: dir, budget: budget, next: 1}
}

// LimitWrites makes the spiller call allow before it writes a segment. An error of allow is
// that of Spill, and nothing is written.
func (s *Scratch) LimitWrites(allow func(bytes int64) error) { s.allow = allow }

// scratchSegment is a segment in the scratch file.
type scratchSegment struct {
	scratch   *Scratch
	pages     int
	checksums []uint32 // [layer][page]
	layers    []extent
	seed      uint64
	place
}

// open creates the file and the write buffer.
func (s *Scratch) open() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.growBuffer(); err != nil {
		return err
	}
	if s.file == nil {
		if err := s.fsys.MkdirAll(s.dir); err != nil {
			return err
		}
		s.file, err = vfs.Scratch(s.fsys, s.dir)
	}
	return err
}

// growBuffer makes the write buffer as large as the budget permits. Pages move to flash when memory is full, which must not
// fail because what is left is less than a whole buffer.
func (s *Scratch) growBuffer() (err error) {
	held := 0
	if s.buffer != nil {
		held = len(s.buffer.Bytes())
	}
	for size := scratchBuffer; size >= max(vfs.DirectAlign, held+1); size /= 2 {
		var larger *tiering.Frame
		if larger, err = tiering.Alloc(s.budget, tiering.KVFrames, size); err == nil {
			if s.buffer != nil {
				s.buffer.Free()
			}
			s.buffer = larger
			return nil
		}
		if !errors.Is(err, tiering.ErrBudget) {
			break
		}
	}
	if s.buffer != nil {
		return nil // a smaller buffer writes the same
	}
	return err
}

// Spill implements [Spiller].
func (s *Scratch) Spill(after Segment, layers, pages int, page func(layer, i int) []byte, write prefetch.WriteFunc) (Segment, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.open(); err != nil {
		return nil, err
	}
	c := &scratchSegment{scratch: s, pages: pages, layers: make([]extent, layers), checksums: make([]uint32, 0, layers*pages), seed: s.next}
	s.next++
	for l := range layers {
		c.layers[l].size = int64(pages) * int64(len(page(l, 0)))
		for i := range pages {
			c.checksums = append(c.checksums, c.checksumAt(l, i, crc.Update(0, page(l, i))))
		}
	}
	if s.allow != nil {
		if err := s.allow(c.fileBytes()); err != nil {
			return nil, refusedWrite{err}
		}
	}
	if err := s.placeSegment(c, after); err != nil {
		return nil, err
	}
	for l := range layers {
		if err := s.write(c.layers[l].off, pages, func(i int) []byte { return page(l, i) }, write); err != nil {
			_ = c.Close() // frees the space
			return nil, err
		}
	}
	return c, nil
}

// fileBytes returns the bytes that the segment takes in the file.
func (c *scratchSegment) fileBytes() (n int64) {
	for _, l := range c.layers {
		n += vfs.DirectSize(l.size)
	}
	return n
}

// checksumAt combines the checksum of a page with its position. A page that is read
// from the position of another one fails verification with high probability.
func (c *scratchSegment) checksumAt(layer, page int, sum uint32) uint32 {
	place := c.seed<<32 ^ uint64(layer)<<16 ^ uint64(page)
	return sum ^ uint32(place*hashMultiplier>>32)
}

// hashMultiplier spreads consecutive numbers over all bits.
const hashMultiplier = 0x9E3779B97F4A7C15

// write writes pages next to each other from off on, and zeros up to a multiple of
// vfs.DirectAlign.
func (s *Scratch) write(off int64, pages int, page func(i int) []byte, write prefetch.WriteFunc) error {
	buffer, n := s.buffer.Bytes(), 0
	flush := func() error {
		if n == 0 {
			return nil
		}
		err := write(s.file, buffer[:n], off)
		off, n = off+int64(n), 0
		return err
	}
	for i := range pages {
		for data := page(i); len(data) > 0; {
			k := copy(buffer[n:], data)
			data = data[k:]
			if n += k; n == len(buffer) {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	end := vfs.DirectSize(n)
	clear(buffer[n:end])
	n = end
	return flush()
}

// Close deletes the file and releases the buffer.
func (s *Scratch) Close() (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		err = s.file.Close()
		s.file = nil
	}
	if s.buffer != nil {
		s.buffer.Free()
		s.buffer = nil
	}
	return err
}

// Pages returns the number of pages of each layer.
func (c *scratchSegment) Pages() int { return c.pages }

// LayerRun implements [Segment].
func (c *scratchSegment) LayerRun(layer int) (io.ReaderAt, int64, int64) {
	return c.scratch.file, c.layers[layer].off, c.layers[layer].size
}

// Verify implements [Segment].
func (c *scratchSegment) Verify(layer, page int, sum uint32) error {
	if c.checksumAt(layer, page, sum) == c.checksums[layer*c.pages+page] {
		return nil
	}
	at := c.layers[layer]
	return &CorruptError{Path: c.scratch.file.Name(), Off: at.off + int64(page)*(at.size/int64(c.pages)), Layer: layer, Page: page}
}

// Authentic implements [Segment]. An encrypted scratch file is written again at the same place, so that
// only the checksum in memory shows whether a write was lost.
func (c *scratchSegment) Authentic() bool { return false }

// Close releases the segment's extent of the file.
func (c *scratchSegment) Close() error {
	c.scratch.mu.Lock()
	defer c.scratch.mu.Unlock()
	if c.scratch.file != nil {
		c.scratch.release(c)
	}
	return nil
}
