package pack

import (
	"errors"
	"fmt"
	"slices"
)

// Rebuild fills block with the bytes of a section at an offset, from what the pack was made of.
// It is called concurrently.
type Rebuild func(section int, off int64, block []byte) error

// ErrNotRebuilt reports that a damaged block could not be rebuilt, so that the pass cannot be
// repeated.
var ErrNotRebuilt = errors.New("the damaged weights cannot be read from the model's own files")

// RebuildWith makes later reads of sections rebuild the blocks that the file has lost or that do
// not match their checksums. A rebuilt block is used only if it matches the checksum in the
// index, so that it holds the bytes that were imported. Reads may be in progress.
func (f *File) RebuildWith(rebuild Rebuild) { f.rebuild.Store(&rebuild) }

// Rebuilds reports whether RebuildWith was called.
func (f *File) Rebuilds() bool { return f.rebuild.Load() != nil }

// rebuildBlock fills p with block i of an extent, or returns the error for the damaged block.
func (f *File) rebuildBlock(x *extent, i int64, p []byte) error {
	damage := f.checksumError(x.off+i*BlockBytes, x.field())
	rebuild := f.rebuild.Load()
	if rebuild == nil || x.kind != section {
		return damage
	}
	if err := (*rebuild)(f.sectionNumber(x), i*BlockBytes, p); err != nil {
		return fmt.Errorf("%w; %w: %w", damage, ErrNotRebuilt, err)
	}
	if blockChecksum(p) != x.checksums[i] {
		return fmt.Errorf("%w; %w: they hold other weights than when they were imported", damage, ErrNotRebuilt)
	}
	return nil
}

// sectionNumber returns the number of an extent of this file.
func (f *File) sectionNumber(x *extent) int {
	for i := range f.index.extents {
		if x == &f.index.extents[i] {
			return i
		}
	}
	return -1 // not an extent of this file
}

// SameWeights reports whether the sections of two packs have the same checksums. Packs of different
// programs count as the same, because their sections may differ. It needs no open file.
func (f *File) SameWeights(other *File) bool {
	if f.index.about.CreatedBy != other.index.about.CreatedBy {
		return true
	}
	return slices.EqualFunc(f.index.extents, other.index.extents, func(a, b extent) bool {
		return a.kind == b.kind && a.name == b.name && slices.Equal(a.checksums, b.checksums)
	})
}
