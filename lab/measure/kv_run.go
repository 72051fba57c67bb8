package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// kvBench holds two copies of a model: one with all keys and values in memory, and one with most
// of them on flash.
type kvBench struct {
	o      *KVOptions
	r      *KVReport
	disk   vfs.FS
	memory *kvSide // nil if weights are on flash
	cold   *kvSide
	spill  *spillWatch
	piece  int64 // bytes of a read of weights; 0 = no weights on flash
}

// kvSide is one copy of the model, with a sequence.
type kvSide struct {
	model    *exec.Model
	files    *modelfile.Files // open files; nil if the model needs none
	bench    *bench.Runner
	sequence *exec.Sequence
}

// kvRing is the size of the buffer that keys and values stream through, without a plan.
const kvRing = 8 << 20

// open loads the model.
func (b *kvBench) open(ctx context.Context) (err error) {
	b.disk, b.r.Flash = vfs.OS(), "direct"
	if b.o.Flash == "mmap" {
		mapped := &vfs.MappedReads{}
		mapped.Enable()
		b.disk = vfs.WithMappedReads(b.disk, mapped)
	}
	if vfs.ReadsMapped(b.disk) {
		b.r.Flash = "mmap"
	}
	if b.o.Disk != (llmrun.DiskSpeed{}) {
		b.disk = vfs.Throttled(b.disk, b.o.Disk.BytesPerSecond, b.o.Disk.Latency)
	}
	budget := tiering.New(0)
	b.spill = &spillWatch{Spiller: kv.NewScratch(b.disk, vfs.Join(b.o.Dir, "kv"), budget)}
	o := exec.Options{Threads: b.o.Threads, Budget: budget, KVSpill: b.spill, KVRing: kvRing}
	if b.cold, err = b.load(ctx, o, b.o.RAM); err != nil {
		return err
	}
	m := b.cold.model
	b.r.Layers, b.r.TokenBytes = len(m.Spec.Layers), m.KVBytesPerToken()
	traffic := m.Traffic()
	b.r.HeadFraction = float64(traffic.HeadMulAdds) / float64(traffic.HeadMulAdds+traffic.LayerMulAdds)
	for _, layer := range m.Spec.Layers {
		if layer.Window > 0 {
			return fmt.Errorf("%w: some layers of this model use sliding-window attention", bench.ErrBench)
		}
	}
	if b.r.Streamed {
		return nil // the plan has set the rest
	}
	b.r.Ring = kvRing
	b.r.KVRAM = cmp.Or(b.o.KVRAM, kvHotTokens*b.r.TokenBytes)
	if err := m.SetHot(b.r.KVRAM); err != nil {
		return err
	}
	b.memory, err = b.load(ctx, exec.Options{Threads: b.o.Threads}, "")
	return err
}

// load opens the model, within a budget if ram is not empty.
func (b *kvBench) load(ctx context.Context, o exec.Options, ram string) (s *kvSide, err error) {
	files, err := modelfile.Open(b.disk, b.o.Path)
	if err != nil {
		return nil, err
	}
	s = &kvSide{files: files}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	o.KV = kv.F32
	if files.Quantized() {
		o.KV = kv.K8V8
	}
	if b.o.KV != "" {
		if o.KV, err = kv.ParseFormat(b.o.KV); err != nil {
			return s, err
		}
	}
	b.r.KV = o.KV.String()
	if ram != "" {
		if o.Plan, err = b.plan(files, o.KV); err != nil {
			return s, err
		}
		o.KVHot, o.KVRing, o.Chunk = o.Plan.KVHot, o.Plan.KVRing, o.Plan.Chunk
		b.r.RAM, b.r.KVRAM, b.r.Ring, b.piece = o.Plan.Budget, o.KVHot, o.KVRing, o.Plan.Piece
	}
	if s.model, err = exec.Load(ctx, files, o); err != nil {
		return s, err
	}
	if !s.model.NeedsFiles() {
		s.files = nil
		if err := files.Close(); err != nil {
			return s, err
		}
	}
	s.bench = bench.NewRunner(s.model)
	s.sequence, err = s.model.NewSequence(0)
	return s, err
}

// plan plans the memory of weights, keys and values.
func (b *kvBench) plan(files *modelfile.Files, format kv.Format) (*tiering.Plan, error) {
	if files.Packed() == nil {
		return nil, fmt.Errorf("%s %w", b.o.Path, ErrPack)
	}
	ram, err := tiering.ParseSize(b.o.RAM, files.TensorBytes())
	if err != nil {
		return nil, err
	}
	spec, err := files.Spec()
	if err != nil {
		return nil, err
	}
	shape, _, err := exec.MeasureShape(files, exec.ShapeOptions{Threads: b.o.Threads, KV: format, KVCold: true})
	if err != nil {
		return nil, err
	}
	longest := 0
	for _, n := range b.o.Contexts {
		longest = max(longest, n+b.o.Decode+warmTokens)
	}
	longest = min(longest, spec.Context)
	return tiering.MakePlan(shape, tiering.Need{Budget: ram, Context: longest, ContextMax: longest, KVCold: true, KVHot: b.o.KVRAM}, tiering.Rates{})
}

// reach extends the sequence to n tokens, with room for more.
func (s *kvSide) reach(ctx context.Context, n int) error {
	s.sequence.Truncate(n)
	if err := s.model.Fill(ctx, s.sequence, n); err != nil {
		return err
	}
	return s.bench.Generate(ctx, s.sequence, 1)
}

// kvUse counts the reads of a measurement.
type kvUse struct {
	read, weights int64
	stalled       time.Duration
	processors    time.Duration // processor time; 0 = unknown
}

func (u *kvUse) add(v kvUse) {
	u.read, u.weights, u.stalled, u.processors = u.read+v.read, u.weights+v.weights, u.stalled+v.stalled, u.processors+v.processors
}

func (s *kvSide) use() kvUse {
	keys, weights := s.model.KVStats(), s.model.StreamStats()
	return kvUse{read: keys.Read, weights: weights.Bytes, stalled: keys.Stalled}
}

// warmTokens is the number of tokens decoded before the measured ones. Before them, prefetch may
// have run further ahead than usual, and the caches hold the other side's weights; one token
// would not be enough to restore both.
const warmTokens = 6

// decode returns the milliseconds per token after a context of n tokens.
func (s *kvSide) decode(ctx context.Context, n, tokens int) (ms float64, used kvUse, err error) {
	s.sequence.Truncate(n)
	if err := s.bench.Generate(ctx, s.sequence, warmTokens); err != nil {
		return 0, used, err
	}
	before, computed := s.use(), tiering.ProcessorTime()
	start := time.Now()
	err = s.bench.Generate(ctx, s.sequence, tokens)
	took := time.Since(start)
	after := s.use()
	used = kvUse{after.read - before.read, after.weights - before.weights, after.stalled - before.stalled, tiering.ProcessorTime() - computed}
	return 1e3 * took.Seconds() / float64(tokens), used, err
}

// flash measures the speed of reading keys and values, and weights; 0 = not on flash.
func (b *kvBench) flash(ctx context.Context) (gbs [2]float64, err error) {
	b.waitIdle(ctx)
	b.spill.mu.Lock()
	defer b.spill.mu.Unlock()
	if b.spill.from != nil {
		piece := min(b.spill.piece, tiering.DefaultPiece)
		if gbs[0], err = rates.Flash(tiering.New(0), b.spill.from, b.spill.end, int(piece), flashTime); err != nil {
			return gbs, err
		}
	}
	if b.piece > 0 {
		gbs[1], err = flash(b.o.Path, b.o.Disk, b.piece)
	}
	return gbs, err
}

// waitIdle waits until prefetch is idle.
func (b *kvBench) waitIdle(ctx context.Context) {
	for before := (kvUse{read: -1}); ctx.Err() == nil && b.cold.use() != before; {
		before = b.cold.use()
		time.Sleep(idleWait)
	}
}

// idleWait is longer than any read.
const idleWait = 50 * time.Millisecond

// close closes both sides.
func (b *kvBench) close() error {
	return errors.Join(b.memory.close(), b.cold.close())
}

func (s *kvSide) close() (err error) {
	if s == nil {
		return nil
	}
	if s.sequence != nil {
		s.sequence.Close()
	}
	if s.model != nil {
		s.model.Close()
	}
	if s.files != nil {
		err = s.files.Close()
		s.files = nil
	}
	return err
}

// spillWatch records where keys and values are written.
type spillWatch struct {
	kv.Spiller
	mu         sync.Mutex  // the cache writes behind the computation
	from       io.ReaderAt // nil: nothing is written yet
	end, piece int64       // end of the file; largest read of a layer
	ends, runs []int64     // [layer] end and length of the last contiguous run
}

// Spill writes pages and records their place.
func (w *spillWatch) Spill(after kv.Segment, layers, pages int, page func(layer, i int) []byte, write prefetch.WriteFunc) (kv.Segment, error) {
	chunk, err := w.Spiller.Spill(after, layers, pages, page, write)
	if err != nil {
		return chunk, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends == nil {
		w.ends, w.runs = make([]int64, layers), make([]int64, layers)
	}
	for l := range layers {
		from, off, size := chunk.LayerRun(l)
		size = vfs.DirectSize(size)
		if off != w.ends[l] {
			w.runs[l] = 0
		}
		w.ends[l], w.runs[l] = off+size, w.runs[l]+size
		w.from, w.end, w.piece = from, max(w.end, w.ends[l]), max(w.piece, w.runs[l])
	}
	return chunk, nil
}
