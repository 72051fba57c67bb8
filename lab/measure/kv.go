package measure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/threadpool"
)

// KVOptions configure KVCurves: the lengths of contexts and the memory of their keys and values.
type KVOptions struct {
	Path     string
	Contexts []int  // tokens, ascending; longer ones are cut to the model's context
	KV       string // precision of keys and values; "" = the library's default
	KVRAM    int64  // memory for them; 0 = kvHotTokens tokens, or as planned under RAM
	// RAM limits weights, keys and values together: a size, or a percentage of the bytes of the
	// model's tensors. It needs a pack. "" = all weights stay in memory.
	RAM     string
	Disk    llmrun.DiskSpeed // speed of reading the model and the keys and values
	Flash   string           // how both are read: mmap, or direct, the default
	Dir     string           // directory of keys and values on flash
	Threads int              // 0 = the fast cores
	Decode  int              // tokens per measurement
	Repeats int
	Running func(done, total int64) // may be nil
}

// kvHotTokens is the default number of tokens whose keys and values stay in memory.
const kvHotTokens = 2048

// KVReport holds the decoding times after contexts whose keys and values are in memory or on flash.
type KVReport struct {
	Model   string        `json:"model"`
	Machine bench.Machine `json:"machine"`
	Threads int           `json:"threads"`
	KV      string        `json:"kv"`
	KVRAM   int64         `json:"kv_ram_bytes"`
	Disk    int64         `json:"disk_bytes_per_s,omitempty"` // speed that --disk limits reads to
	Flash   string        `json:"flash"`                      // direct or mmap
	// Streamed reports that weights are on flash too. Then no row has everything in memory, and
	// there is no crossing.
	Streamed bool  `json:"weights_streamed"`
	RAM      int64 `json:"ram_bytes,omitempty"`

	Layers       int     `json:"layers"`
	TokenBytes   int64   `json:"kv_bytes_per_token"` // of all layers
	HeadFraction float64 `json:"head_share"`         // the output matrix's fraction of a token's operations
	Ring         int64   `json:"ring_bytes"`         // buffer that keys and values stream through
	// PlacementCost is the extra time per token in the copy of the model that uses flash, because
	// of its placement in memory. The in-memory times of rows include it.
	PlacementCost float64 `json:"apart_ms"`

	Rows    []KVRow   `json:"rows"`
	Summary KVSummary `json:"summary"`
}

// KVRow is the result for one context. Times are medians per token.
type KVRow struct {
	Context int   `json:"context"`
	Cold    int64 `json:"cold_bytes"` // of keys and values on flash, which each token reads
	Read    int64 `json:"read_bytes_per_token"`
	Weights int64 `json:"weights_read_bytes_per_token,omitempty"`
	// FlashGBs and WeightsGBs are the speeds of reading keys and values, and weights outside
	// memory: the better of two measurements, before and after the row, with the same read sizes.
	FlashGBs   float64 `json:"flash_gb_s,omitempty"`
	WeightsGBs float64 `json:"weights_flash_gb_s,omitempty"`

	Memory  float64 `json:"memory_ms,omitempty"`           // all in memory, plus PlacementCost
	Without float64 `json:"without_prefetch_ms,omitempty"` // each layer reads when it needs pages
	With    float64 `json:"with_prefetch_ms"`
	Ratio   float64 `json:"with_prefetch_of_memory,omitempty"` // median of measurements in turns
	Stalled float64 `json:"stalled_ms"`                        // waits of attention, part of With
	// Processor time per token, with all in memory and with prefetch.
	MemoryWork float64 `json:"memory_processor_ms,omitempty"`
	WithWork   float64 `json:"with_prefetch_processor_ms,omitempty"`
	// Predicted is With as predicted from the row's flash speed and its time in memory. With
	// weights on flash it is the time for reading the bytes of both.
	Predicted float64 `json:"predicted_ms"`
}

// Modes of a measurement, which take turns.
const (
	inMemory = iota
	onDemand
	prefetched
	kvModes
)

// KVCurves measures the time per token after each context in three modes: with all keys and values
// in memory; with older ones on flash, read when a layer needs them; and with those prefetched.
// With weights on flash it measures only the last mode.
func KVCurves(ctx context.Context, o KVOptions) (r *KVReport, err error) {
	if o.Threads == 0 {
		o.Threads = threadpool.DefaultThreads()
	}
	r = &KVReport{Model: filepath.Base(o.Path), Machine: bench.ThisMachine(), Threads: o.Threads, Streamed: o.RAM != "", Disk: o.Disk.BytesPerSecond}
	b := &kvBench{o: &o, r: r}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	contexts, err := kvContexts(o.Contexts, b.cold.model.Spec.Context-o.Decode-warmTokens)
	if err != nil {
		return nil, err
	}
	if b.memory != nil {
		if r.PlacementCost, err = b.placementCost(ctx); err != nil {
			return nil, err
		}
	}
	for i, n := range contexts {
		row, err := b.measure(ctx, n)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
		if o.Running != nil {
			o.Running(int64(i+1), int64(len(contexts)))
		}
	}
	r.summarize()
	return r, nil
}

// kvContexts sorts the contexts and cuts them to at most most tokens.
func kvContexts(list []int, most int) (out []int, err error) {
	for _, n := range list {
		n = min(n, most)
		if n < 1 {
			return nil, fmt.Errorf("%w: the model's context is too short: it has room for %d tokens besides the generated ones", bench.ErrBench, most)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// measure measures one context. Contexts are in ascending order, so that pages on flash serve the
// next context too.
func (b *kvBench) measure(ctx context.Context, n int) (row KVRow, err error) {
	row.Context = n
	sides := [kvModes]*kvSide{inMemory: b.memory, onDemand: b.cold, prefetched: b.cold}
	if b.r.Streamed {
		sides[onDemand] = nil
	}
	for _, side := range []*kvSide{b.memory, b.cold} {
		if side == nil {
			continue
		}
		if err := side.reach(ctx, n); err != nil {
			return row, err
		}
	}
	stats := b.cold.model.KVStats()
	row.Cold = int64(stats.ColdPages) * int64(stats.PageBytes)
	before, err := b.flash(ctx)
	if err != nil {
		return row, err
	}
	var times [kvModes][]float64
	var ratios []float64
	var uses [kvModes]kvUse
	for turn := range b.o.Repeats {
		for k := range kvModes {
			mode := (turn + k) % kvModes
			side := sides[mode]
			if side == nil {
				continue
			}
			side.model.ReadKVLate(mode == onDemand)
			took, used, err := side.decode(ctx, n, b.o.Decode)
			if err != nil {
				return row, err
			}
			times[mode] = append(times[mode], took)
			uses[mode].add(used)
		}
		if b.memory != nil {
			ratios = append(ratios, times[prefetched][turn]/(times[inMemory][turn]+b.r.PlacementCost))
		}
	}
	after, err := b.flash(ctx)
	if err != nil {
		return row, err
	}
	row.FlashGBs, row.WeightsGBs = max(before[0], after[0]), max(before[1], after[1])
	tokens := int64(b.o.Repeats * b.o.Decode)
	perToken := func(d time.Duration) float64 { return 1e3 * d.Seconds() / float64(tokens) }
	use := uses[prefetched]
	row.Read, row.Weights, row.Stalled = use.read/tokens, use.weights/tokens, perToken(use.stalled)
	row.MemoryWork, row.WithWork = perToken(uses[inMemory].processors), perToken(use.processors)
	row.With = bench.Median(times[prefetched])
	if b.memory != nil {
		row.Memory, row.Without, row.Ratio = bench.Median(times[inMemory])+b.r.PlacementCost, bench.Median(times[onDemand]), bench.Median(ratios)
	}
	return row, nil
}
