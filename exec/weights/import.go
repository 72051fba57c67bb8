package weights

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// ImportOptions are the settings of an import.
type ImportOptions struct {
	Made     string // program and version, stored in the pack
	Progress func(done, total int64)
	Planes   PlaneOf // chooses matrices to store in two planes; nil: none
	// Attachments are stored beside those of the model.
	Attachments []pack.Attachment
	// Program, if set, is what the file begins with: the pack is behind it.
	Program *pack.Program
}

// Import writes a model as a pack, in the layout and order that LoadWeights uses. It
// changes no weight. If it fails or ctx is cancelled, no file is left.
func Import(ctx context.Context, f *modelfile.Files, fsys vfs.FS, path string, o ImportOptions) error {
	im, err := newImporter(f, o)
	if err != nil {
		return err
	}
	need, err := im.Bytes()
	if err != nil {
		return err
	}
	dir, _ := vfs.Split(path)
	if err := errors.Join(o.Program.Check(need), pack.CheckRoom(fsys, dir, need)); err != nil {
		return err
	}
	return im.Write(ctx, fsys, path)
}

// importer is a planned import.
type importer struct {
	ld       *Loader
	places   []*Placement // of all sections, in order
	contents pack.Contents
	files    *modelfile.Files
	made     string
}

// ImportWith returns a function that plans imports, for modelfile.CacheOptions.
func ImportWith(o ImportOptions) func(*modelfile.Files) (modelfile.Importer, error) {
	return func(f *modelfile.Files) (modelfile.Importer, error) { return newImporter(f, o) }
}

// Bytes returns the size of the pack.
func (im *importer) Bytes() (int64, error) { return im.contents.Bytes() }

// newImporter checks every tensor of a model and plans its pack.
func newImporter(f *modelfile.Files, o ImportOptions) (*importer, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	im := &importer{files: f, made: o.Made, ld: &Loader{Tensors: f.TensorSet(), Spec: spec, Progress: o.Progress}}
	layouts, err := im.ld.PlanAll(&Weights{Layers: make([]LayerWeights, len(spec.Layers))})
	if err != nil {
		return nil, err
	}
	if o.Planes != nil && splitPlanes(layouts, func(p *Placement) tiled.Plane { return o.Planes(p.name, p.Slice.Type) }) == 0 {
		return nil, ErrNoPlanes
	}
	for i := range layouts {
		s := pack.Section{Name: layouts[i].Name}
		for j := range layouts[i].Places {
			p := &layouts[i].Places[j]
			im.places = append(im.places, p)
			im.ld.Total += int64(p.Bytes())
			s.Tensors = append(s.Tensors, p.packTensor())
		}
		im.contents.Sections = append(im.contents.Sections, s)
	}
	im.contents.Program = o.Program
	im.contents.Attachments, err = f.Attachments()
	im.contents.Attachments = append(im.contents.Attachments, o.Attachments...)
	return im, err
}

// packTensor describes the placement as a tensor of a pack.
func (p *Placement) packTensor() pack.Tensor {
	shape := []int{p.Slice.Rows, p.Slice.Cols}
	if p.Vector != nil {
		shape = []int{p.Slice.Rows * p.Slice.Cols}
	}
	return pack.Tensor{Name: p.name, Type: p.storedType(), Shape: shape, Layout: p.layout()}
}

// rowBlock is a block of rows that a worker prepares for the pack.
type rowBlock struct {
	p           *Placement
	first, rows int
	out         []byte
	err         error
	done        chan struct{} // closed when out, or err, is set
}

// mostImportWorkers bounds the blocks that are in memory at a time on machines with many processors: the plan of a
// budget does not know their number, and the hash of the source keeps no more of them busy.
const mostImportWorkers = 2 * loadReaders

// Write writes the pack. Workers read and arrange blocks of rows ahead of the writer, which
// writes them in order. Memory is limited to a few blocks, whatever the size of a tensor.
//
// The source is hashed at the same time, unless its hash is known: the pack needs tensors in
// another order than they have in the file, but the page cache serves most second reads.
func (im *importer) Write(ctx context.Context, fsys vfs.FS, path string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := min(max(loadReaders, runtime.GOMAXPROCS(0)), mostImportWorkers)
	work := make(chan *rowBlock)
	ordered := make(chan *rowBlock, 2*workers) // bounds the read-ahead
	spare := make(chan []byte, 2*workers)      // reused buffers of written blocks
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(ordered)
		defer close(work)
		im.submitBlocks(ctx, work, ordered)
	})
	for range workers {
		wg.Go(func() { im.arrangeBlocks(work, spare) })
	}
	hashed := make(chan error, 1)
	wg.Go(func() {
		_, err := im.files.About(ctx, im.made)
		hashed <- err
	})
	im.contents.Origin = func() (pack.About, error) {
		if err := <-hashed; err != nil {
			return pack.About{}, err
		}
		return im.files.AboutImported(ctx, im.made)
	}
	err := pack.Write(fsys, path, im.contents, func(w io.Writer) error { return im.writeBlocks(ctx, w, ordered, spare) })
	cancel()
	wg.Wait()
	return err
}

// arrangeBlocks is a worker: it reads and arranges blocks.
func (im *importer) arrangeBlocks(work <-chan *rowBlock, spare <-chan []byte) {
	var raw, tiles []byte
	for c := range work {
		select {
		case c.out = <-spare:
		default:
		}
		raw, tiles, c.err = im.ld.arrange(c, raw, tiles)
		close(c.done)
	}
}

// writeBlocks writes arranged blocks in order and returns their buffers to spare.
func (im *importer) writeBlocks(ctx context.Context, w io.Writer, ordered <-chan *rowBlock, spare chan<- []byte) error {
	for c := range ordered {
		select {
		case <-c.done:
		case <-ctx.Done(): // submitBlocks may have stopped before a worker received the block
			return ctx.Err()
		}
		if c.err != nil {
			return c.err
		}
		if _, err := w.Write(c.out); err != nil {
			return err
		}
		im.ld.AddRead(len(c.out))
		select {
		case spare <- c.out:
		default:
		}
	}
	return ctx.Err()
}

// submitBlocks cuts all tensors into blocks. It sends them to the workers and, in the same
// order, to the writer.
func (im *importer) submitBlocks(ctx context.Context, work, ordered chan<- *rowBlock) {
	for _, p := range im.places {
		step := p.Slice.Rows
		if p.Vector == nil {
			step = max(1, tileReadBytes/p.rowBytes()/tiled.TileRows) * tiled.TileRows
		}
		for first := 0; first < p.Slice.Rows; first += step {
			c := &rowBlock{p: p, first: first, rows: min(step, p.Slice.Rows-first), done: make(chan struct{})}
			for _, to := range []chan<- *rowBlock{ordered, work} {
				select {
				case to <- c:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// rowBytes returns the size of a row in the source.
func (p *Placement) rowBytes() int { return int(p.Slice.Bytes()) / p.Slice.Rows }

// arrange reads a block's rows and arranges them as the pack stores them. It reuses the
// buffers raw and tiles, which it returns, and the block's out buffer.
func (ld *Loader) arrange(c *rowBlock, raw, tiles []byte) (toRaw, toTiles []byte, err error) {
	s := &c.p.Slice
	n := c.rows * c.p.rowBytes()
	raw = slices.Grow(raw[:0], n)[:n]
	if err := ld.ReadRows(s, c.first, raw); err != nil {
		return raw, tiles, err
	}
	switch {
	case c.p.Vector != nil:
		floats := make([]float32, s.Rows*s.Cols)
		quant.DequantRow(s.Type, floats, raw)
		c.out = modelfile.AppendFloats(c.out[:0], floats)
	case c.p.tile:
		size, err := tiled.Bytes(s.Type, c.rows, s.Cols)
		if err != nil {
			return raw, tiles, err
		}
		if c.p.plane == tiled.Whole {
			c.out = slices.Grow(c.out[:0], size)[:size]
			tiled.Pack(c.out, s.Type, raw, c.rows, s.Cols)
			break
		}
		tiles = slices.Grow(tiles[:0], size)[:size]
		tiled.Pack(tiles, s.Type, raw, c.rows, s.Cols)
		part := size / s.Type.BlockBytes() * c.p.plane.BlockBytes(s.Type)
		c.out = slices.Grow(c.out[:0], part)[:part]
		tiled.SplitPlane(c.out, c.p.plane, s.Type, tiles)
	default:
		c.out, raw = raw, c.out
	}
	return raw, tiles, nil
}
