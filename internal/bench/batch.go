package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/quant"
)

// BatchTest is the speed of several sequences that are decoded at the same time.
type BatchTest struct {
	N         int     `json:"n"`         // sequences
	TokPerSec float64 `json:"tok_per_s"` // of all together, the median of the runs
	// Bound is what the machine allows: a pass takes as long as one of a single token, or as its
	// multiplications and additions take at the peak of 8-bit integers.
	Bound    float64 `json:"bound_tok_per_s"`
	PeakGops float64 `json:"peak_gops"` // 10^9 operations on 8-bit integers per second
	ReadGBs  float64 `json:"read_gb_s"` // 10^9 bytes per second read from memory
}

// batchSizes are the numbers of sequences that are measured.
var batchSizes = []int{1, 2, 4, 8, 16}

// RunBatch decodes 1, 2, 4, 8 and 16 sequences at the same time, each with the first of o.Decode tokens
// behind the first of o.Depths. The runs take turns.
func RunBatch(ctx context.Context, o Options) (tests []BatchTest, err error) {
	o.useDefaults()
	o.Threads = o.Threads[len(o.Threads)-1:]
	var l Limits
	if err := l.measureWithin(&o); err != nil {
		return nil, err
	}
	samples, t, err := timeBatches(ctx, &o)
	if err != nil {
		return nil, err
	}
	// Machines drift within minutes. The model is closed: its memory is that of the measurement now.
	if err := l.measureWithin(&o); err != nil {
		return nil, err
	}
	ops, one := 2*float64(t.LayerMulAdds+t.HeadMulAdds), Median(samples[0])
	for i, n := range batchSizes {
		pass := max(1/one, float64(n)*ops/(l.Int8Gops*1e9))
		tests = append(tests, BatchTest{N: n, TokPerSec: Median(samples[i]), Bound: float64(n) / pass, PeakGops: l.Int8Gops, ReadGBs: l.ReadGBs})
	}
	return tests, nil
}

// timeBatches opens a model, and returns the speeds of the runs (see batchRunner.run) and what a token reads.
func timeBatches(ctx context.Context, o *Options) (samples [][]float64, _ exec.Traffic, err error) {
	open, most := o.Open, slices.Max(batchSizes)
	if open == nil {
		open = o.openWithDefaults
	}
	opened, err := open(ctx, o.Threads[0], most*wholePages(o.Depths[0]+o.Decode[0]))
	if err != nil {
		return nil, exec.Traffic{}, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	fits := Test{Name: "batch", Depth: o.Depths[0], Length: o.Decode[0]}
	if err := fits.fits(opened.Model); err != nil {
		return nil, exec.Traffic{}, err
	}
	b := batchRunner{Model: opened.Model, depth: o.Depths[0], tokens: o.Decode[0]}
	defer b.close()
	samples, err = b.run(ctx, o)
	return samples, opened.Model.Traffic(), err
}

// wholePages returns how many tokens a budget has to hold for a sequence, which shares no page with another one.
func wholePages(tokens int) int {
	return (tokens + kv.BlockTokens - 1) / kv.BlockTokens * kv.BlockTokens
}

// batchRunner decodes several sequences at the same time.
type batchRunner struct {
	*exec.Model
	depth, tokens int
	sequences     []*exec.Sequence
}

// run returns the speeds of the runs, in tokens per second, for each of batchSizes. The first round warms
// up caches and is not counted.
func (b *batchRunner) run(ctx context.Context, o *Options) ([][]float64, error) {
	samples := make([][]float64, len(batchSizes))
	total := int64((1 + o.Repeats) * len(batchSizes))
	for round := range 1 + o.Repeats {
		for i, n := range batchSizes {
			took, err := b.decode(ctx, n)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				samples[i] = append(samples[i], float64(n*b.tokens)/took.Seconds())
			}
			if o.Running != nil {
				o.Running(int64(round*len(batchSizes)+i+1), total)
			}
		}
	}
	return samples, nil
}

// decode decodes n sequences greedily, each behind tokens of its own, and returns the time.
func (b *batchRunner) decode(ctx context.Context, n int) (time.Duration, error) {
	if err := b.prepare(ctx, n); err != nil {
		return 0, err
	}
	errs := make([]error, n)
	start := time.Now()
	var running sync.WaitGroup
	for i, s := range b.sequences[:n] {
		running.Go(func() {
			defer s.Rest()
			next := []int32{int32(i)}
			o := &exec.ExtendOptions{Each: func(_ int, logits []float32) error {
				next[0] = int32(max(0, quant.ArgMax(logits)))
				return nil
			}}
			for range b.tokens {
				if errs[i] = b.Extend(ctx, s, next, o); errs[i] != nil {
					return
				}
			}
		})
	}
	running.Wait()
	return time.Since(start), errors.Join(errs...)
}

// prepare makes n sequences of b.depth tokens, no two of which begin alike.
func (b *batchRunner) prepare(ctx context.Context, n int) error {
	for i := range n {
		if i == len(b.sequences) {
			s, err := b.NewSequence(0)
			if err != nil {
				return err
			}
			b.sequences = append(b.sequences, s)
		}
		s := b.sequences[i]
		if s.Truncate(b.depth); s.Len() == b.depth {
			continue
		}
		ids := make([]int32, b.depth-s.Len())
		for j := range ids {
			ids[j] = int32(((s.Len()+j)*7919 + 1 + i) % b.Spec.Vocab)
		}
		if err := b.Extend(ctx, s, ids, &exec.ExtendOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (b *batchRunner) close() {
	for _, s := range b.sequences {
		s.Close()
	}
}
