package pack

import (
	"slices"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
)

// A tensor may be stored in two planes: tiles of the high bits of its codes under its own name, and tiles
// of the low bits under the name with LowSuffix. As a store.Source, a pack has the whole tensor.

// version returns the version of a pack with these contents: programs that do not know planes read all
// packs without them.
func (x *index) version() uint32 {
	if slices.ContainsFunc(x.tensors, func(t Tensor) bool { return t.Layout.Plane() != tiled.Whole }) {
		return planesVersion
	}
	return Version
}

// checkPlanes checks that each plane has the one with the other bits.
func (c *cursor) checkPlanes(x *index) {
	if c.err != nil || c.version < planesVersion {
		return
	}
	byName := make(map[string]*Tensor, len(x.tensors))
	for i := range x.tensors {
		byName[x.tensors[i].Name] = &x.tensors[i]
	}
	low := 0
	for i := range x.tensors {
		t := &x.tensors[i]
		plane := t.Layout.Plane()
		if plane.IsLow() {
			low++
		}
		if !plane.IsHigh() {
			continue
		}
		low--
		other := byName[t.Name+LowSuffix]
		if other == nil || other.Layout != PlaneLayout(plane.Other()) || other.Type != t.Type || !slices.Equal(other.Shape, t.Shape) {
			c.fail("tensor \""+t.Name+"\"", "has no low plane of its type and shape")
			return
		}
	}
	if low != 0 {
		c.fail("index", "has %d low planes more than high ones", low)
	}
}

// tileBytes returns the size of a tile of a tensor in a plane.
func tileBytes(t *Tensor, p tiled.Plane) int64 {
	of := store.Tensor{Shape: t.Shape}
	return int64(tiled.TileRows * of.Cols() / t.Type.BlockElems() * p.BlockBytes(t.Type))
}

// joinTiles reads whole tiles of a tensor in two planes into dst, from a tile on. memory is as large as dst.
// checkPlanes has found the low plane.
func (f *File) joinTiles(high *Tensor, tile int64, dst, memory []byte) error {
	plane := high.Layout.Plane()
	n := int64(len(dst)) / tileBytes(high, tiled.Whole)
	var parts [2][]byte
	for i, name := range [...]string{high.Name, high.Name + LowSuffix} {
		at := f.byName[name]
		t, size := &f.index.tensors[at], tileBytes(high, plane)
		parts[i], memory = memory[:n*size], memory[n*size:]
		if _, err := f.readExtent(&f.index.extents[f.index.extentOf[at]], parts[i], t.Off+tile*size); err != nil {
			return err
		}
		plane = plane.Other()
	}
	tiled.JoinPlanes(dst, high.Layout.Plane(), high.Type, parts[0], parts[1])
	return nil
}

// HasPlanes reports whether the pack stores tensors in two planes.
func (f *File) HasPlanes() bool { return f.version == planesVersion }

// PlaneBytes returns the size of the tensors that the pack stores in two planes.
func (f *File) PlaneBytes() (n int64) {
	for i := range f.index.tensors {
		if t := &f.index.tensors[i]; t.Layout.Plane() != tiled.Whole {
			size, _ := t.Bytes() // Open has checked it
			n += size
		}
	}
	return n
}
