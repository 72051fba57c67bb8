package bench

import (
	"context"
	"io/fs"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// Runner runs a model. It prefills a context of each depth once and reuses it for all runs.
type Runner struct {
	Model     *exec.Model
	sequences map[int]*exec.Sequence // by depth
	next      int32                  // the most likely token after the last one
	reader    exec.ExtendOptions
}

// NewRunner returns a runner that measures model.
func NewRunner(model *exec.Model) *Runner {
	b := &Runner{Model: model, sequences: map[int]*exec.Sequence{}}
	b.reader.Each = b.pick
	return b
}

// NewPassRunner returns a runner that times passes without the choice of a token: it ignores the
// logits.
func NewPassRunner(model *exec.Model) *Runner {
	b := NewRunner(model)
	b.reader.Each = func(int, []float32) error { return nil }
	return b
}

// Lengths of warm-up runs.
const (
	warmUpPrompt = 64
	warmUpTokens = 2
)

// time runs a test once and records its speed, except for a warm-up run.
func (b *Runner) time(ctx context.Context, t *Test, warmUp bool) error {
	if b.Model.Threads() != t.Threads {
		if err := b.Model.SetThreads(t.Threads); err != nil {
			return err
		}
		// A warm-up run makes the system allocate the memory of the new threads.
		if _, err := b.Run(ctx, t, true); err != nil {
			return err
		}
	}
	if _, err := b.Sequence(ctx, t.Depth); err != nil { // its reads do not belong to the test
		return err
	}
	before := b.flashBytes()
	took, err := b.Run(ctx, t, warmUp)
	if err == nil && !warmUp {
		t.samples = append(t.samples, float64(t.Length)/took.Seconds())
		t.flash += b.flashBytes() - before
	}
	return err
}

// settle generates tokens until the weights are where they stay: those that opened as a mapping move to memory a part before
// each pass, which belongs to opening and not to a test.
func (b *Runner) settle(ctx context.Context) error {
	s, err := b.Sequence(ctx, 0)
	for err == nil && b.Model.Promoting() {
		s.Truncate(0)
		err = b.Generate(ctx, s, 1)
	}
	return err
}

// flashBytes returns how many bytes of weights the model has read from flash.
func (b *Runner) flashBytes() int64 { return b.Model.StreamStats().Bytes + b.Model.ExpertStats().Bytes }

// Run prefills a prompt or generates tokens after the depth of the test, and returns the time. A
// warm-up run is shorter.
func (b *Runner) Run(ctx context.Context, t *Test, warmUp bool) (time.Duration, error) {
	s, err := b.Sequence(ctx, t.Depth)
	if err != nil {
		return 0, err
	}
	n := t.Length
	switch {
	case warmUp && t.Decode:
		n = min(n, warmUpTokens)
	case warmUp:
		n = min(n, warmUpPrompt)
	}
	start := time.Now()
	if t.Decode {
		err = b.Generate(ctx, s, n)
	} else {
		err = b.read(ctx, s, b.ids(t.Depth, n))
	}
	return time.Since(start), err
}

// Generate decodes n tokens greedily.
func (b *Runner) Generate(ctx context.Context, s *exec.Sequence, n int) error {
	var id [1]int32
	for range n {
		id[0] = b.next
		if err := b.read(ctx, s, id[:]); err != nil {
			return err
		}
	}
	return nil
}

// Sequence returns a sequence that holds exactly depth tokens.
func (b *Runner) Sequence(ctx context.Context, depth int) (*exec.Sequence, error) {
	s, ok := b.sequences[depth]
	if !ok {
		var err error
		if s, err = b.Model.NewSequence(0); err != nil {
			return nil, err
		}
		b.sequences[depth] = s
	}
	s.Truncate(depth)
	if s.Len() < depth { // it is new, or cannot be truncated to depth
		return s, b.read(ctx, s, b.ids(s.Len(), depth-s.Len()))
	}
	return s, nil
}

// ids returns n fixed token ids for the positions from first. They differ, so that a router
// chooses different experts.
func (b *Runner) ids(first, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32((first + i) * 7919 % b.Model.Spec.Vocab)
	}
	return out
}

// read extends the sequence and picks the most likely next token.
func (b *Runner) read(ctx context.Context, s *exec.Sequence, ids []int32) error {
	return b.Model.Extend(ctx, s, ids, &b.reader)
}

func (b *Runner) pick(_ int, logits []float32) error {
	b.next = int32(max(0, quant.ArgMax(logits)))
	return nil
}

// Close releases the sequences.
func (b *Runner) Close() {
	for _, s := range b.sequences {
		s.Close()
	}
}

// FSOf returns the file system of models: files, or the operating system's if files is nil.
func FSOf(files fs.FS) vfs.FS {
	if files == nil {
		return vfs.OS()
	}
	return vfs.FromIOFS(files)
}

// Median sorts values and returns their median.
func Median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
