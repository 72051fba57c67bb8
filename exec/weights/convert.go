package weights

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/crc"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/tiering"
)

// A model that is not a pack, or whose weights an option changes, has no section with the bytes
// that the kernels use. A conversion makes them when they are read: it reads rows of the source,
// which quantizes or merges them if an option says so, and packs them into tiles, with the code
// that an import uses. The ring, the pinned bytes, the expert cache and the embedding lookup thus
// hold the same bytes as with a pack. That takes time of the cores in each pass.

const (
	// converters is the maximum number of blocks of tiles that are converted at the same time.
	converters = loadReaders
	// convertRows is roughly how many bytes of rows are read before they are packed. Smaller
	// reads do not reach the speed of the disk.
	convertRows = 512 << 10
)

// conversion is the section of a layout that no pack stores. It implements io.ReaderAt for
// several goroutines.
type conversion struct {
	ld     *Loader
	name   string
	places []Placement  // in order; vectors are loaded separately, except in a rebuilt section
	stored []storedRows // of each place; nil: nowhere
	size   int
	// sums are the checksums of the blocks that were read, 0 for the others: a source has no
	// checksums, so a block is compared with its first conversion. nil if a pack has them.
	sums []uint32
}

// convertMemory is the memory of all conversions of a model.
type convertMemory struct {
	free chan []byte // memory of idle converters
	unit int         // bytes of the largest tile
}

// convertSections gives the layouts that no pack stores a section that converts them.
func (ld *Loader) convertSections(layouts []Layout) error {
	var plan convertPlan
	plan.add(layouts)
	if plan.sections == 0 {
		return nil
	}
	frame, err := tiering.Alloc(ld.Budget, tiering.Pinned, int(plan.bytes()))
	if err != nil {
		return fmt.Errorf("loading %s: %w", ld.Tensors.Path, err)
	}
	ld.Frames = append(ld.Frames, frame)
	ld.convert = &convertMemory{free: make(chan []byte, converters), unit: plan.unit}
	mem := frame.Bytes()
	for range converters {
		n := plan.unit + plan.rows()
		ld.convert.free <- mem[:n:n]
		mem = mem[AlignedSize(n):]
	}
	sums, err := tiering.View[uint32](mem, plan.blocks)
	if err != nil {
		return err
	}
	for i := range layouts {
		if l := &layouts[i]; l.section == nil && len(l.Places) > 0 {
			c := l.newConversion(ld)
			n := blocksOf(c.size)
			c.sums, sums = sums[:n:n], sums[n:]
			l.section, l.Size, l.SectionSize = c, c.size, c.size
		}
	}
	return nil
}

// newConversion gives the matrices of a layout consecutive places in a section.
func (l *Layout) newConversion(ld *Loader) *conversion {
	c := &conversion{ld: ld, name: l.Name}
	for i := range l.Places {
		if p := &l.Places[i]; p.Matrix != nil {
			if p.off = c.size; p.Bytes() == 0 {
				continue // another device has all rows
			}
			c.size += AlignedSize(p.Bytes())
			c.places, c.stored = append(c.places, *p), append(c.stored, ld.findStored(p))
		}
	}
	return c
}

// blocksOf returns the number of blocks with a checksum in a section of n bytes.
func blocksOf(n int) int { return (n + pack.BlockBytes - 1) / pack.BlockBytes }

// convertPlan is the memory that conversions need.
type convertPlan struct{ sections, blocks, unit int }

// add adds the layouts that no pack stores.
func (c *convertPlan) add(layouts []Layout) {
	for i := range layouts {
		l := &layouts[i]
		if l.section != nil || len(l.Places) == 0 {
			continue
		}
		c.sections++
		size := 0
		for j := range l.Places {
			p := &l.Places[j]
			if p.Matrix != nil {
				size += AlignedSize(p.Bytes())
			}
			if p.tile {
				_, unit := p.unit()
				c.unit = max(c.unit, unit)
			}
		}
		c.blocks += blocksOf(size)
	}
}

// rows returns the memory for rows of one converter.
func (c *convertPlan) rows() int { return max(c.unit+joinBlocks, convertRows) }

// bytes returns the memory of all conversions.
func (c *convertPlan) bytes() int64 {
	return int64(converters*AlignedSize(c.unit+c.rows()) + 4*c.blocks)
}

// ConvertBytes returns the memory that converting the layouts while they are read takes: 0 if
// a pack stores all of them. It includes the unused end of the frame that then holds the vectors.
func (ld *Loader) ConvertBytes(layouts []Layout) int64 {
	for i := range layouts {
		ld.findSection(&layouts[i])
	}
	var plan convertPlan
	plan.add(layouts)
	if plan.sections == 0 {
		return 0
	}
	return plan.bytes() + int64(os.Getpagesize())
}

// ReadAt converts the bytes of the section from an offset on.
func (c *conversion) ReadAt(dst []byte, off int64) (int, error) {
	if off < 0 || off > int64(c.size) || int64(len(dst)) > int64(c.size)-off {
		return 0, fmt.Errorf("weights: %s: read of %d bytes at %d is outside %s of %d bytes", c.ld.Tensors.Path, len(dst), off, c.name, c.size)
	}
	at, end := int(off), int(off)+len(dst)
	for i := c.placeAt(at); at < end; i++ {
		to := end
		if i+1 < len(c.places) {
			to = min(end, c.places[i+1].off)
		}
		p := &c.places[i]
		part := dst[at-int(off) : to-int(off)]
		n := min(len(part), max(0, p.off+p.Bytes()-at))
		clear(part[n:]) // the gap behind the tensor
		if err := c.read(i, part[:n], at-p.off); err != nil {
			return 0, err
		}
		at = to
	}
	return len(dst), c.check(dst, int(off))
}

// placeAt returns the index of the last placement that begins at or before an offset.
func (c *conversion) placeAt(off int) int {
	i, found := slices.BinarySearchFunc(c.places, off, func(p Placement, off int) int { return p.off - off })
	if found {
		return i
	}
	return i - 1
}

// read fills dst with the bytes of place i from an offset on.
func (c *conversion) read(i int, dst []byte, at int) error {
	if c.stored != nil && c.stored[i].section != nil {
		return c.stored[i].read(c.ld.convert, dst, at)
	}
	return c.convert(&c.places[i], dst, at)
}

// convert fills dst with the bytes of a placement from an offset on.
func (c *conversion) convert(p *Placement, dst []byte, at int) error {
	switch {
	case len(dst) == 0:
		return nil
	case p.Vector != nil:
		return c.ld.convertVector(&p.Slice, dst, at)
	case !p.tile:
		return c.ld.readBytes(&p.Slice, int64(at), dst)
	}
	m := c.ld.convert
	mem := <-m.free
	defer func() { m.free <- mem }()
	tile, raw := mem[:m.unit], mem[m.unit:]
	_, unit := p.unit()
	for len(dst) > 0 {
		first, skip := at/unit, at%unit
		n := min(len(dst), len(raw)) / unit
		out, inPlace := tile[:unit], skip == 0 && n > 0
		if inPlace {
			out = dst[:n*unit]
		}
		rows := min(len(out)/unit*tiled.TileRows, p.Slice.Rows-first*tiled.TileRows)
		if err := c.ld.packTiles(p, first, rows, raw, out); err != nil {
			return err
		}
		n = len(out)
		if !inPlace { // dst holds a part of this tile
			n = copy(dst, out[skip:])
		}
		dst, at = dst[n:], at+n
	}
	return nil
}

// packTiles makes tiles of a placement, from one on, which have a number of rows.
func (ld *Loader) packTiles(p *Placement, first, rows int, raw, out []byte) error {
	if high, low, ok := ld.findPlanes(p); ok {
		return joinStored(p, &high, &low, first, raw, out)
	}
	return ld.packRows(&p.Slice, first*tiled.TileRows, rows, raw, out)
}

// packRows reads rows of a matrix, from the first row of a tile on, and packs them into tiles.
// raw has room for the rows.
func (ld *Loader) packRows(s *modelfile.TensorSlice, first, rows int, raw, out []byte) error {
	raw = raw[:rows*int(s.Bytes()/int64(s.Rows))]
	if err := ld.ReadRows(s, first, raw); err != nil {
		return err
	}
	tiled.Pack(out, s.Type, raw, rows, s.Cols)
	return nil
}

// check compares the whole blocks in data, from an offset of the section on, with the checksums
// of their first conversion.
func (c *conversion) check(data []byte, off int) error {
	if c.sums == nil {
		return nil
	}
	first := blocksOf(off)
	for b := first; ; b++ {
		from, to := b*pack.BlockBytes, min((b+1)*pack.BlockBytes, c.size)
		if from >= to || to > off+len(data) {
			return nil
		}
		sum := crc.Update(0, data[from-off:to-off])
		if old := atomic.LoadUint32(&c.sums[b]); old == 0 {
			atomic.StoreUint32(&c.sums[b], sum)
		} else if old != sum {
			return c.changed(from)
		}
	}
}

// changed returns the error for a block, at an offset of the section, that holds other weights than
// when it was first read. It names the first row of the source that the block holds.
func (c *conversion) changed(at int) error {
	p := &c.places[c.placeAt(at)]
	inside := int64(min(at-p.off, p.Bytes()-1))
	if p.tile {
		_, unit := p.unit()
		inside = inside / int64(unit) * tiled.TileRows * (p.Slice.Bytes() / int64(p.Slice.Rows))
	}
	path, field := c.ld.Tensors.Path, fmt.Sprintf("section %q", c.name)
	for _, r := range p.Slice.Ranges {
		if inside < r.Size {
			if files := c.ld.Tensors.Source.Files(); r.Tensor.File < len(files) {
				path = files[r.Tensor.File]
			}
			return store.Changed(path, r.Tensor.Offset+r.Offset+inside, fmt.Sprintf("tensor %q", r.Tensor.Name))
		}
		inside -= r.Size
	}
	return store.Changed(path, store.NoOffset, field)
}

// A pack stores whole matrices. If another device computes the last rows of some, the section of
// their layer holds the first rows of each matrix: they are copied from the pack as they are.

// storedRows is where a pack stores the rows of a placement, and perhaps others behind them. The zero
// value is nowhere.
type storedRows struct {
	section io.ReaderAt
	off     int64 // of the first row
	size    int64 // of the section
	plane   tiled.Plane
}

// findStored finds the rows of a placement in a pack that stores them as they are in memory.
func (ld *Loader) findStored(p *Placement) storedRows {
	file, ok := ld.Tensors.Source.(*pack.File)
	if !ok {
		return storedRows{}
	}
	at, ok := file.Find(p.name)
	if !ok || at.Layout != p.layout() || at.Type != p.storedType() || at.Bytes < int64(p.Bytes()) {
		return storedRows{}
	}
	return storedRows{file.Section(at.Section), at.Off, file.SectionSize(at.Section), p.plane}
}

// read fills dst with the bytes from an offset of the rows on. It reads whole blocks of the pack into
// a converter's memory, so that the pack needs no memory of its own.
func (s *storedRows) read(m *convertMemory, dst []byte, at int) error {
	mem := <-m.free
	defer func() { m.free <- mem }()
	return s.readWith(mem, dst, at)
}

// readWith is read with the memory of a converter, at least joinBlocks.
func (s *storedRows) readWith(mem, dst []byte, at int) error {
	for from := s.off + int64(at); len(dst) > 0; {
		first := from / pack.BlockBytes * pack.BlockBytes
		end := (from + int64(len(dst)) + pack.BlockBytes - 1) / pack.BlockBytes * pack.BlockBytes
		end = min(end, first+int64(len(mem)/pack.BlockBytes*pack.BlockBytes), s.size)
		blocks := mem[:end-first]
		if _, err := s.section.ReadAt(blocks, first); err != nil {
			return err
		}
		n := copy(dst, blocks[from-first:])
		dst, from = dst[n:], from+int64(n)
	}
	return nil
}

// convertTime is the duration of the measurement of a conversion. Tests replace it.
var convertTime = 100 * time.Millisecond

// MeasureConversion measures how fast a number of threads convert weights, in GB/s, without the
// time for which they wait for the disk where the system tells it. It returns 0 if a pack stores
// all of them, and an error that wraps tiering.ErrBudget if the ledger refuses the memory.
func MeasureConversion(ctx context.Context, ts *modelfile.TensorSet, spec *arch.Spec, exact bool, threads int, ledger *tiering.Budget) (gbs float64, err error) {
	ld := &Loader{Tensors: ts, Spec: spec, Budget: ledger, Exact: exact}
	defer ld.Free()
	layouts, err := ld.PlanAll(&Weights{Layers: make([]LayerWeights, len(spec.Layers))})
	if err != nil {
		return 0, err
	}
	for i := range layouts {
		ld.findSection(&layouts[i])
	}
	if err := ld.convertSections(layouts); err != nil {
		return 0, err
	}
	var sections []*conversion
	for i := range layouts {
		if c, ok := layouts[i].section.(*conversion); ok && c.size > 0 && layouts[i].Kind != EmbeddingLayout && layouts[i].Kind != TableLayout {
			sections = append(sections, c)
		}
	}
	if len(sections) == 0 {
		return 0, nil
	}
	pieces, err := tiering.Alloc(ledger, tiering.Pinned, converters*tiering.DefaultPiece)
	if err != nil {
		return 0, err
	}
	defer pieces.Free()
	return timeConversions(ctx, sections, pieces.Bytes(), max(1, threads))
}

// timeConversions converts pieces of all sections in turn for convertTime, and a piece at least, as many at a time as
// a stream, and returns the speed of a number of threads in GB/s.
func timeConversions(ctx context.Context, sections []*conversion, memory []byte, threads int) (gbs float64, err error) {
	var (
		next, bytes atomic.Int64
		wait        sync.WaitGroup
		errs        [converters]error
	)
	began, computed := time.Now(), tiering.ProcessorTime()
	for i := range errs {
		piece := memory[i*tiering.DefaultPiece:][:tiering.DefaultPiece]
		wait.Go(func() {
			for first := true; errs[i] == nil && (first || time.Since(began) < convertTime); first = false {
				n := int(next.Add(1) - 1)
				c := sections[n%len(sections)]
				at := n / len(sections) * len(piece) % c.size
				part := piece[:min(len(piece), c.size-at)]
				if _, errs[i] = c.ReadAt(part, int64(at)); errs[i] == nil {
					errs[i] = ctx.Err()
				}
				bytes.Add(int64(len(part)))
			}
		})
	}
	wait.Wait()
	elapsed := time.Since(began).Seconds()
	if used := (tiering.ProcessorTime() - computed).Seconds(); used > 0 {
		elapsed = min(elapsed, used/float64(threads))
	}
	return float64(bytes.Load()) / elapsed / 1e9, errors.Join(errs[:]...)
}
