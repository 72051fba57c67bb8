package kv

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/store/vfs"
)

// Chunks of a sequence are small where little may be in memory, and a read costs
// the processors much the same whatever it brings. So a chunk gets a region with
// room for the ones that will come after it: of each layer, their pages lie one
// behind the other, and one read brings those of many chunks.

// regionRun is what a region has room for of the largest layer: as much as is read
// at once.
const regionRun = 1 << 20

// scratchSpare is what stays free on the disk: pages that it has no room for stay in
// memory, but a session's text that cannot be saved is lost.
const scratchSpare = 4 << 20

type extent struct{ off, size int64 }

// region is a part of the file that chunks of a sequence share.
type region struct {
	extent
	layers []int64         // where those of each layer end
	last   *scratchSegment // behind which there may be room; nil once none is in use
}

// place is where a chunk is.
type place struct {
	region   *region
	prev     *scratchSegment // in the same region
	released bool
}

// placeSegment finds a place for a chunk, for which the disk has room: behind another one,
// if that is the last of a region with room for it, or in a region of its own.
func (s *Scratch) placeSegment(c *scratchSegment, after Segment) error {
	if before, ok := after.(*scratchSegment); ok && before.region.last == before && c.appendTo(before) {
		return nil
	}
	var largest int64
	for _, l := range c.layers {
		largest = max(largest, vfs.DirectSize(l.size))
	}
	err := s.reserveRegion(c, max(1, regionRun/max(1, largest)))
	if err != nil { // the disk may have room for the chunk alone
		err = s.reserveRegion(c, 1)
	}
	return err
}

// reserveRegion makes a region for a chunk and others of the same size, so many in all.
func (s *Scratch) reserveRegion(c *scratchSegment, chunks int64) error {
	r := &region{last: c}
	for l := range c.layers {
		r.size += chunks * vfs.DirectSize(c.layers[l].size)
		r.layers = append(r.layers, r.size)
	}
	if err := s.allocExtent(&r.extent); err != nil {
		return err
	}
	off := r.off
	for l := range c.layers {
		c.layers[l].off = off
		r.layers[l] += r.off
		off = r.layers[l]
	}
	c.region = r
	return nil
}

// appendTo places the chunk behind another one, if there is room.
func (c *scratchSegment) appendTo(before *scratchSegment) bool {
	for l := range c.layers {
		off := before.layers[l].off + vfs.DirectSize(before.layers[l].size)
		if off+vfs.DirectSize(c.layers[l].size) > before.region.layers[l] {
			return false
		}
		c.layers[l].off = off
	}
	c.region, c.prev = before.region, before
	c.region.last = c
	return true
}

// allocExtent finds room for an extent.
func (s *Scratch) allocExtent(e *extent) error {
	at := slices.IndexFunc(s.holes, func(h extent) bool { return h.size >= e.size })
	if at < 0 {
		if err := vfs.Allocate(s.file, s.end+e.size); err != nil {
			return err
		}
		if free, known := vfs.FreeSpace(s.fsys, s.dir); known && free < scratchSpare {
			return errors.Join(fmt.Errorf("%s has no more room: %d bytes stay free", s.dir, scratchSpare), s.file.Truncate(s.end))
		}
		e.off = s.end
		s.end += e.size
		return nil
	}
	h := &s.holes[at]
	e.off = h.off
	h.off += e.size
	if h.size -= e.size; h.size == 0 {
		s.holes = slices.Delete(s.holes, at, at+1)
	}
	return nil
}

// release makes a chunk's place free for one behind the same chunk, and its region
// for anything once it was the last there. s.mu is held.
func (s *Scratch) release(c *scratchSegment) {
	c.released = true
	r := c.region
	for r.last != nil && r.last.released {
		r.last = r.last.prev
	}
	if r.last == nil {
		s.freeExtent(r.extent)
	}
}

// freeExtent makes a place free for others. s.mu is held.
func (s *Scratch) freeExtent(e extent) {
	if e.size == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(s.holes, e, func(a, b extent) int { return int(a.off>>12) - int(b.off>>12) })
	s.holes = slices.Insert(s.holes, at, e)
	if at+1 < len(s.holes) && s.holes[at].off+s.holes[at].size == s.holes[at+1].off {
		s.holes[at].size += s.holes[at+1].size
		s.holes = slices.Delete(s.holes, at+1, at+2)
	}
	if at > 0 && s.holes[at-1].off+s.holes[at-1].size == s.holes[at].off {
		s.holes[at-1].size += s.holes[at].size
		s.holes = slices.Delete(s.holes, at, at+1)
		at--
	}
	if last := s.holes[at]; last.off+last.size == s.end {
		// The disk may have the room. A reader that is late finds the end of the
		// file, and nobody wants what it reads.
		s.end = last.off
		s.holes = s.holes[:at]
		_ = s.file.Truncate(s.end)
	}
}
