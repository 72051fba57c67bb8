package pack

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
)

// About describes the origin of a pack.
type About struct {
	CreatedBy   string // program and version that wrote the pack
	Source      string // name of the imported model, for display
	SourceBytes int64  // total length of the source's files
	Fingerprint Fingerprint
	Tiling      uint32 // tiled.LayoutVersion of the writer; set by Write
}

// Layout is the order of a tensor's rows in a pack.
type Layout uint8

// The values are those in the file.
const (
	Rows  Layout = iota // contiguous rows, as in the source
	Tiles               // interleaved rows, see package tiled
	// planeLayouts are tiles of planes: the tiled.Plane is the difference to Tiles.
	lastLayout = Tiles + Layout(tiled.Low2)
)

// PlaneLayout returns the layout of tiles of a plane.
func PlaneLayout(p tiled.Plane) Layout { return Tiles + Layout(p) }

// Plane returns the plane of tiles: tiled.Whole unless the tensor is stored in two planes.
func (l Layout) Plane() tiled.Plane {
	if l < Tiles {
		return tiled.Whole
	}
	return tiled.Plane(l - Tiles)
}

// LowSuffix follows the name of a tensor in the name of its low plane.
const LowSuffix = ".low"

// Tensor is a tensor of a section.
type Tensor struct {
	Name   string
	Type   quant.Type
	Shape  []int // outermost dimension first
	Layout Layout
	Off    int64 // offset in the section, a multiple of Align; set by Write
}

// Bytes returns the size of the tensor in the section.
func (t *Tensor) Bytes() (int64, error) {
	size, _, err := t.sizes()
	return size, err
}

// sizes returns the size of the tensor in its section and its size in the source.
func (t *Tensor) sizes() (packed, plain int64, err error) {
	plain, fits, err := store.Bytes(t.Type, t.Shape)
	if err != nil {
		return 0, 0, err
	}
	if !fits || plain > math.MaxInt64/2 {
		return 0, 0, fmt.Errorf("shape %v is out of range", t.Shape)
	}
	if t.Layout == Rows {
		return plain, plain, nil
	}
	of, plane := store.Tensor{Shape: t.Shape}, t.Layout.Plane()
	if !tiled.Fits(t.Type, of.Cols()) || of.Rows() == 0 || !plane.Of(t.Type) {
		return 0, 0, fmt.Errorf("%v of shape %v has no tiles of layout %d", t.Type, t.Shape, t.Layout)
	}
	rows := alignUp(int64(of.Rows()), tiled.TileRows)
	perRow := int64(of.Cols() / t.Type.BlockElems() * plane.BlockBytes(t.Type))
	if perRow > 0 && rows > math.MaxInt64/2/perRow {
		return 0, 0, fmt.Errorf("shape %v is out of range", t.Shape)
	}
	return rows * perRow, plain, nil
}

// extent is a checksummed range of the file: a section or an attachment.
type extent struct {
	kind      extentKind
	name      string
	off, size int64
	checksums []uint32 // [blockCount(size)]
}

// extentKind distinguishes sections and attachments.
type extentKind uint8

const (
	attachment extentKind = iota
	section
	numKinds
)

// index describes the contents of a pack.
type index struct {
	about    About
	extents  []extent
	tensors  []Tensor // by section and offset
	extentOf []int32  // [tensors] index of the tensor's extent
}

// Minimum sizes of records, to check a count before memory is allocated.
const (
	minStringBytes = 2
	minExtentBytes = 1 + minStringBytes + 8 + 8
	minTensorBytes = 4 + minStringBytes + 1 + 4 + 1 + 8 + 1 + 8
	maxRank        = 4

	// Bounds of the memory of records, with their places in the tables of the model. The
	// texts and checksums of extents are as long as in the index.
	extentCost = 96
	tensorCost = 640
)

// encode returns the index in the form of FORMAT.md.
func (x *index) encode() []byte {
	le := binary.LittleEndian
	text := func(b []byte, s string) []byte {
		s = s[:min(len(s), math.MaxUint16)]
		return append(le.AppendUint16(b, uint16(len(s))), s...)
	}
	b := text(nil, x.about.CreatedBy)
	b = text(b, x.about.Source)
	b = le.AppendUint64(b, uint64(x.about.SourceBytes))
	b = append(b, x.about.Fingerprint[:]...)
	b = le.AppendUint32(b, x.about.Tiling)
	b = le.AppendUint32(b, uint32(len(x.extents)))
	for _, e := range x.extents {
		b = text(append(b, byte(e.kind)), e.name)
		b = le.AppendUint64(le.AppendUint64(b, uint64(e.off)), uint64(e.size))
		for _, sum := range e.checksums {
			b = le.AppendUint32(b, sum)
		}
	}
	b = le.AppendUint32(b, uint32(len(x.tensors)))
	for i, t := range x.tensors {
		b = text(le.AppendUint32(b, uint32(x.extentOf[i])), t.Name)
		b = append(le.AppendUint32(b, t.Type.ID()), byte(t.Layout))
		b = append(le.AppendUint64(b, uint64(t.Off)), byte(len(t.Shape)))
		for _, d := range t.Shape {
			b = le.AppendUint64(b, uint64(d))
		}
	}
	return b
}

// decodeIndex decodes and checks an index whose checksum is correct. It does not trust the
// contents: an attacker can compute checksums too. It calls reserve before it allocates.
func decodeIndex(path string, version uint32, b []byte, f footer, reserve func(int64) error) (*index, error) {
	c := &cursor{reserve: reserve, path: path, version: version, start: f.index, rest: b, size: len(b)}
	x := &index{}
	x.about.CreatedBy = c.text("made")
	x.about.Source = c.text("source")
	x.about.SourceBytes = c.int64("source length")
	copy(x.about.Fingerprint[:], c.take("fingerprint", len(x.about.Fingerprint)))
	x.about.Tiling = c.uint32("tiling")
	x.extents = c.extents(f.index)
	c.tensors(x)
	if c.err == nil && len(c.rest) > 0 {
		c.fail("index", "%d bytes follow the last tensor", len(c.rest))
	}
	c.checkPlanes(x)
	return x, c.err
}

// extents reads the table of extents, which fill the file up to end.
func (c *cursor) extents(end int64) []extent {
	n := c.count("count of extents", minExtentBytes)
	// All checksums of the extents are in the rest of the index.
	if !c.reserved(extentCost*int64(n) + int64(len(c.rest))) {
		return nil
	}
	list := make([]extent, 0, n)
	at := int64(headerBytes) // where the next extent begins
	for range n {
		e := extent{kind: extentKind(c.byte("kind of an extent")), name: c.text("name of an extent")}
		e.off, e.size = c.int64("offset"), c.int64("length")
		switch {
		case c.err != nil:
			return nil
		case e.kind >= numKinds:
			c.fail(e.field(), "kind %d is unknown", e.kind)
		case e.off != at:
			c.fail(e.field(), "begins at %d instead of %d, the end of the previous extent", e.off, at)
		case e.size > end-e.off:
			c.fail(e.field(), "%d bytes at %d reach into the index at %d", e.size, e.off, end)
		}
		e.checksums = c.checksums(e.size)
		if c.err != nil {
			return nil
		}
		at = alignUp(e.off+e.size, pageBytes)
		list = append(list, e)
	}
	if c.err == nil && at != end {
		c.fail("index", "begins at %d instead of %d, the end of the last extent", end, at)
	}
	return list
}

// field names the extent in messages.
func (e *extent) field() string {
	if e.kind == section {
		return fmt.Sprintf("section %q", e.name)
	}
	return fmt.Sprintf("attachment %q", e.name)
}

// checksums reads the checksums of an extent.
func (c *cursor) checksums(size int64) []uint32 {
	n := blockCount(size)
	if c.err != nil || n > int64(len(c.rest)/4) {
		c.truncated("checksums", n*4)
		return nil
	}
	sums := make([]uint32, n)
	for i := range sums {
		sums[i] = c.uint32("checksum")
	}
	return sums
}

// tensors reads the table of tensors into x.
func (c *cursor) tensors(x *index) {
	n := c.count("count of tensors", minTensorBytes)
	if !c.reserved(tensorCost * int64(n)) {
		return
	}
	x.tensors, x.extentOf = make([]Tensor, 0, n), make([]int32, 0, n)
	dims := make([]int, 0, 2*n) // backs all shapes with one allocation
	last, end := int32(-1), int64(0)
	for range n {
		in := c.uint32("section of a tensor")
		t := Tensor{Name: c.text("name of a tensor")}
		typ, err := quant.FromID(c.uint32("tensor"))
		t.Type, t.Layout, t.Off = typ, Layout(c.byte("tensor")), c.int64("tensor")
		first := len(dims)
		for range c.rank() {
			dims = append(dims, int(c.int64("dimension")))
		}
		t.Shape = dims[first:len(dims):len(dims)]
		if int32(in) != last {
			end = 0
		}
		if c.err == nil {
			c.err = c.checkTensor(x, &t, err, in, last, end)
		}
		if c.err != nil {
			return
		}
		size, _ := t.Bytes() // checkTensor has checked it
		last, end = int32(in), t.Off+size
		x.tensors, x.extentOf = append(x.tensors, t), append(x.extentOf, int32(in))
	}
}

// checkTensor checks a tensor. in is the index of its extent, typeErr the error of parsing
// its type. last is the extent of the previous tensor, and end is where that tensor ends.
func (c *cursor) checkTensor(x *index, t *Tensor, typeErr error, in uint32, last int32, end int64) error {
	fail := func(reason string, args ...any) error {
		c.fail(fmt.Sprintf("tensor %q", t.Name), reason, args...)
		return c.err
	}
	switch {
	case typeErr != nil:
		return fail("%v", typeErr)
	case t.Layout > lastLayout || t.Layout > Tiles && c.version < planesVersion:
		return fail("layout %d is unknown in version %d", t.Layout, c.version)
	case int64(in) >= int64(len(x.extents)) || x.extents[in].kind != section:
		return fail("is in extent %d, which is not a section", in)
	case int32(in) < last || t.Off < end || t.Off%Align != 0:
		return fail("its offset %d in section %d is out of order, unaligned or shared with another tensor", t.Off, in)
	}
	size, err := t.Bytes()
	if err != nil {
		return fail("%v", err)
	}
	if room := x.extents[in].size; size == 0 || t.Off > room || size > room-t.Off {
		return fail("%d bytes at offset %d exceed the section of %d bytes", size, t.Off, room)
	}
	return nil
}

// rank reads the number of dimensions.
func (c *cursor) rank() int {
	n := int(c.byte("number of dimensions"))
	if c.err == nil && (n < 1 || n > maxRank) {
		c.fail("number of dimensions", "%d is not from 1 to %d", n, maxRank)
	}
	if c.err != nil {
		return 0
	}
	return n
}
