package kv

import (
	"errors"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/store/vfs"
)

// Segments of a sequence are small if the memory limit is low, but the processor time of
// a read hardly depends on its size. Therefore Scratch reserves a region with room for
// the following segments of the sequence: in a region, the pages of a layer are adjacent
// across segments, and one read fetches many segments.

// regionRun is the size of the largest layer of a region: the bytes of one large
// read.
const regionRun = 1 << 20

// ScratchSpare bytes of the disk stay free, for sessions: pages that do not fit on the
// disk can remain in memory, but a session that cannot be saved is lost.
const ScratchSpare = 4 << 20

// extent is a range of the file.
type extent struct{ off, size int64 }

// region is a range of the file that several segments of a sequence share.
type region struct {
	extent
	layers []int64         // [layer] end of the layer's range
	last   *scratchSegment // the last segment in use; nil if none is
}

// place is the position of a segment in the file.
type place struct {
	region   *region
	prev     *scratchSegment // segment before it in the region
	released bool
}

// placeSegment reserves disk space for a segment: directly after segment after, if that
// is the last one of a region with room, or in a new region.
func (s *Scratch) placeSegment(c *scratchSegment, after Segment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := after.(*scratchSegment); ok && before.region.last == before && c.appendTo(before) {
		return nil
	}
	var largest int64
	for _, l := range c.layers {
		largest = max(largest, vfs.DirectSize(l.size))
	}
	err := s.reserveRegion(c, max(1, regionRun/max(1, largest)))
	if err != nil { // the disk may have room for this segment alone
		err = s.reserveRegion(c, 1)
	}
	return err
}

// reserveRegion reserves a region for a number of segments of this size and places c
// at its beginning.
func (s *Scratch) reserveRegion(c *scratchSegment, segments int64) error {
	r := &region{last: c}
	for l := range c.layers {
		r.size += segments * vfs.DirectSize(c.layers[l].size)
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

// appendTo places the segment after another one. It returns false if the region has no
// room.
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

// allocExtent sets the offset of an extent to free space: the first hole that is
// large enough, or the end of the file.
func (s *Scratch) allocExtent(e *extent) error {
	at := slices.IndexFunc(s.holes, func(h extent) bool { return h.size >= e.size })
	if at < 0 {
		tight := refusedWrite{fmt.Errorf("spilling to %s would leave less than %d bytes of the disk free", s.dir, ScratchSpare)}
		if free, known := vfs.FreeSpace(s.fsys, s.dir); known && free-e.size < ScratchSpare {
			return tight
		}
		err := vfs.Allocate(s.file, s.end+e.size)
		if free, known := vfs.FreeSpace(s.fsys, s.dir); err == nil && known && free < ScratchSpare {
			err = tight // others have taken the room meanwhile
		}
		if err != nil { // a failed allocation may keep what it got
			return errors.Join(err, s.file.Truncate(s.end))
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

// release frees a segment. If no segment after it in the region is in use, the sequence
// can reuse the space. If no segment of the region is in use, any sequence can reuse the
// region. The caller holds s.mu.
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

// freeExtent adds an extent to the holes and merges it with adjacent ones. The caller
// holds s.mu.
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
		// Return the space to the disk. A read in flight may reach the end of the
		// file; its result is not needed.
		s.end = last.off
		s.holes = s.holes[:at]
		_ = s.file.Truncate(s.end)
	}
}
