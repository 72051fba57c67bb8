package exec

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// MeasuredKV is the most bytes of keys and values that MeasureAttention makes up.
	MeasuredKV = 64 << 20
	// A measurement of attention compares two depths, so that what does not grow with the
	// context cancels out. measuredDepth is the larger one, unless its keys and values exceed
	// MeasuredKV; the smaller one is one part in depthRatio.
	measuredDepth, leastDepth, depthRatio = 8192, 256, 8
	// A prefill chunk is measured at a smaller depth if a token takes longer than slowToken, and
	// no pass is repeated after measuredTime.
	slowToken, measuredTime = 20 * time.Millisecond, 200 * time.Millisecond
	// measuredChunk is the number of tokens of the measured prefill chunk.
	measuredChunk = 64
	// measuredPasses is the number of repeats; the fastest counts, because a pause of the
	// machine would enter the difference of two times.
	measuredPasses = 5
)

// AttentionRates are the bytes of keys and values that attention reads from memory in a second
// and for each query, in GB/s: with one token, and with the tokens of a chunk, which share reads.
type AttentionRates struct{ DecodeGBs, PrefillGBs float64 }

// MeasureAttention measures the attention of a model over made-up keys and values in memory. It
// reads no weights. budget grants its memory; memory bounds the bytes of keys and values, 0 means
// no bound. The rates are 0 if the model attends to nothing, or if there is no memory for a
// measurement.
func MeasureAttention(ctx context.Context, f *modelfile.Files, o ShapeOptions, budget *tiering.Budget, memory int64) (r AttentionRates, err error) {
	o.Select, o.W8A8, o.KVCold, o.budget = Selection{}, nil, false, budget
	m, _, _, err := outlineModel(f, o)
	if err != nil {
		return r, err
	}
	defer func() { _ = m.cache.Close() }()
	depth := measurableDepth(m, memory)
	if depth < leastDepth {
		return r, nil
	}
	m.budget, m.workers = budget, threadpool.New(o.Threads)
	defer m.workers.Close()
	return measureAttention(ctx, m, depth)
}

// measurableDepth returns the depth at which attention can be measured with some bytes.
func measurableDepth(m *Model, memory int64) int {
	perToken := m.cache.Shape().TokenBytes()
	if perToken == 0 {
		return 0
	}
	if memory <= 0 || memory > MeasuredKV {
		memory = MeasuredKV
	}
	return min(measuredDepth, m.Spec.Context-measuredChunk, int(memory/perToken))
}

// measureAttention measures the attention of a model that has only a cache and workers.
func measureAttention(ctx context.Context, m *Model, depth int) (r AttentionRates, err error) {
	p, err := newPass(m, measuredChunk)
	if err != nil {
		return r, err
	}
	defer p.free()
	s, err := m.NewSequence(0)
	if err != nil {
		return r, err
	}
	defer s.Close()
	if err := m.Fill(ctx, s, depth+measuredChunk); err != nil {
		return r, err
	}
	p.ctx = ctx
	r.DecodeGBs = p.attentionRate(s, depth, 1)
	if float64(attendedBytes(m, depth)) > r.DecodeGBs*1e9*slowToken.Seconds() {
		depth = max(depth/depthRatio, min(depth, leastDepth)) // many tokens would take seconds
	}
	r.PrefillGBs = p.attentionRate(s, depth, measuredChunk)
	return r, nil
}

// attentionRate returns the GB/s of the growth of attention with its depth, for each of some
// tokens.
func (p *pass) attentionRate(s *Sequence, depth, tokens int) float64 {
	short := depth / depthRatio
	took := p.attentionTime(s, depth, tokens) - p.attentionTime(s, short, tokens)
	bytes := attendedBytes(p.m, depth) - attendedBytes(p.m, short)
	if took <= 0 {
		return 0
	}
	return float64(tokens) * float64(bytes) / took.Seconds() / 1e9
}

// attentionTime returns the time of the attention of all layers, for tokens at a depth.
func (p *pass) attentionTime(s *Sequence, depth, tokens int) time.Duration {
	p.batch = &Batch{runs: []run{{seq: s, pos: depth, count: tokens}}, ids: make([]int32, tokens)}
	for i := range tokens {
		p.batch.want = append(p.batch.want, i)
	}
	var times []time.Duration
	for begun := time.Now(); len(times) == 0 || len(times) < measuredPasses && time.Since(begun) < measuredTime; {
		start := time.Now()
		p.attendAll(tokens)
		times = append(times, time.Since(start))
	}
	return slices.Min(times)
}

// attendAll runs the attention of all layers.
func (p *pass) attendAll(tokens int) {
	for l := range p.m.Spec.Layers {
		if p.m.Spec.Layers[l].KVHeads > 0 {
			p.setLayer(l)
			p.n = tokens
			p.attn.planTiles()
			p.attn.attendMemory()
		}
	}
}

// attendedBytes returns the bytes of keys and values that a token at a depth attends to.
func attendedBytes(m *Model, depth int) (n int64) {
	for _, kv := range attendedKV(m) {
		n += kv.At(depth)
	}
	return n
}

// attendedKV returns the sizes of a token's keys and values, by the window in which later tokens
// attend to them.
func attendedKV(m *Model) (list []tiering.AttendedKV) {
	for l, layer := range m.Spec.Layers {
		bytes := int64(m.cache.PageBytes(m.Spec.Stored(l)) / m.cache.PageTokens())
		at := slices.IndexFunc(list, func(k tiering.AttendedKV) bool { return k.Window == layer.Window })
		switch {
		case bytes == 0:
		case at >= 0:
			list[at].PerToken += bytes
		default:
			list = append(list, tiering.AttendedKV{Window: layer.Window, PerToken: bytes})
		}
	}
	return list
}

// MeasureConversion measures how fast weights that no pack stores are converted, in GB/s; 0 if
// a pack stores all of them, or if the ledger has no room for the measurement.
func MeasureConversion(ctx context.Context, f *modelfile.Files, o ShapeOptions, ledger *tiering.Budget) (float64, error) {
	spec, err := f.Spec()
	if err != nil {
		return 0, err
	}
	ts, err := f.TensorsFor(o.Exact)
	if err != nil {
		return 0, err
	}
	gbs, err := weights.MeasureConversion(ctx, ts, spec, o.Exact, o.Threads, ledger)
	if errors.Is(err, tiering.ErrBudget) {
		return 0, nil
	}
	return gbs, err
}
