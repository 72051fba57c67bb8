package exec

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// ImportOptions are what the owner of an import decides.
type ImportOptions struct {
	Made     string // program and version, for the pack to say who made it
	Progress func(done, total int64)
}

// Import writes a model as a pack: what Load puts in memory, in the order in
// which it is used. No weight changes. The file is there completely or not at
// all, also when ctx is cancelled.
func Import(ctx context.Context, f *Files, fsys vfs.FS, path string, o ImportOptions) error {
	im, err := newImporter(f, o)
	if err != nil {
		return err
	}
	need, err := im.contents.Bytes()
	if err != nil {
		return err
	}
	dir, _ := vfs.Split(path)
	if err := pack.CheckRoom(fsys, dir, need); err != nil {
		return err
	}
	return im.write(ctx, fsys, path)
}

// importer is an import that has been planned.
type importer struct {
	ld       *loader
	places   []*placement // of all sections, in order
	contents pack.Contents
}

// newImporter checks every tensor of a model and plans its pack.
func newImporter(f *Files, o ImportOptions) (*importer, error) {
	spec, err := f.Spec()
	if err != nil {
		return nil, err
	}
	im := &importer{ld: &loader{ts: f.tensors(), spec: spec, progress: o.Progress}}
	plans, err := im.ld.planAll(&weights{layers: make([]layerWeights, len(spec.Layers))})
	if err != nil {
		return nil, err
	}
	for i := range plans {
		s := pack.Section{Name: plans[i].name}
		for j := range plans[i].places {
			p := &plans[i].places[j]
			im.places = append(im.places, p)
			im.ld.total += int64(p.bytes())
			s.Tensors = append(s.Tensors, p.packTensor())
		}
		im.contents.Sections = append(im.contents.Sections, s)
	}
	if im.contents.Attachments, err = f.attachments(); err != nil {
		return nil, err
	}
	im.contents.About, err = f.about(o.Made)
	return im, err
}

// packTensor describes the placement as a tensor of a pack.
func (p *placement) packTensor() pack.Tensor {
	shape := []int{p.slot.rows, p.slot.cols}
	if p.vector != nil {
		shape = []int{p.slot.rows * p.slot.cols}
	}
	return pack.Tensor{Name: p.name, Type: p.storedType(), Shape: shape, Layout: p.layout()}
}

// about says what a pack of f is made from.
func (f *Files) about(made string) (a pack.About, err error) {
	_, a.Source = vfs.Split(f.Path)
	a.Made = made
	if f.packed != nil {
		was := f.packed.About()
		a.Source, a.SourceBytes, a.Fingerprint = was.Source, was.SourceBytes, was.Fingerprint
		return a, nil
	}
	files, err := f.sourceFiles()
	if err != nil {
		return a, err
	}
	a.Fingerprint, a.SourceBytes, err = pack.FingerprintOf(f.fsys, files)
	return a, err
}

// A chunk is a run of rows on its way from the source to the pack.
type chunk struct {
	p           *placement
	first, rows int
	out         []byte
	err         error
	done        chan struct{} // closed when out, or err, is set
}

// write writes the pack. Some goroutines read chunks of rows and arrange them,
// ahead of the one that writes them in order; memory stays within a few chunks,
// however large a tensor is.
func (im *importer) write(ctx context.Context, fsys vfs.FS, path string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := max(loadReaders, runtime.GOMAXPROCS(0))
	work := make(chan *chunk)
	ordered := make(chan *chunk, 2*workers) // bounds how far reading is ahead
	spare := make(chan []byte, 2*workers)   // memory of chunks that were written
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(ordered)
		defer close(work)
		im.feed(ctx, work, ordered)
	})
	for range workers {
		wg.Go(func() {
			var raw []byte
			for c := range work {
				select {
				case c.out = <-spare:
				default:
				}
				raw, c.err = im.ld.arrange(c, raw)
				close(c.done)
			}
		})
	}
	err := pack.Write(fsys, path, im.contents, func(w io.Writer) error {
		for c := range ordered {
			select {
			case <-c.done:
			case <-ctx.Done(): // feed may have stopped before a worker got the chunk
				return ctx.Err()
			}
			if c.err != nil {
				return c.err
			}
			if _, err := w.Write(c.out); err != nil {
				return err
			}
			im.ld.arrived(len(c.out))
			select {
			case spare <- c.out:
			default:
			}
		}
		return ctx.Err()
	})
	cancel()
	wg.Wait()
	return err
}

// feed cuts all tensors into chunks and hands them to the workers and, in the
// same order, to the writer.
func (im *importer) feed(ctx context.Context, work, ordered chan<- *chunk) {
	for _, p := range im.places {
		step := p.slot.rows
		if p.vector == nil {
			step = max(1, tileChunk/p.rowBytes()/tiled.TileRows) * tiled.TileRows
		}
		for first := 0; first < p.slot.rows; first += step {
			c := &chunk{p: p, first: first, rows: min(step, p.slot.rows-first), done: make(chan struct{})}
			for _, to := range []chan<- *chunk{ordered, work} {
				select {
				case to <- c:
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// rowBytes returns the size of a row as the source has it.
func (p *placement) rowBytes() int { return int(p.slot.bytes()) / p.slot.rows }

// arrange reads a chunk's rows and puts them in the order of the pack. It uses
// the memory of raw, which it returns, and of the chunk's out, and grows both as
// is needed.
func (ld *loader) arrange(c *chunk, raw []byte) ([]byte, error) {
	s := &c.p.slot
	n := c.rows * c.p.rowBytes()
	raw = slices.Grow(raw[:0], n)[:n]
	if err := ld.readRows(s, c.first, raw); err != nil {
		return raw, err
	}
	switch {
	case c.p.vector != nil:
		floats := make([]float32, s.rows*s.cols)
		quant.DequantRow(s.typ, floats, raw)
		c.out = appendFloats(c.out[:0], floats)
	case c.p.tile:
		size, err := tiled.Bytes(s.typ, c.rows, s.cols)
		if err != nil {
			return raw, err
		}
		c.out = slices.Grow(c.out[:0], size)[:size]
		tiled.Pack(c.out, s.typ, raw, c.rows, s.cols)
	default:
		c.out, raw = raw, c.out
	}
	return raw, nil
}
