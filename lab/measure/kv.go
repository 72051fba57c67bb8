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

// KVOptions say which contexts to decode behind, and how much memory their keys
// and values have.
type KVOptions struct {
	Path     string
	Contexts []int  // tokens, ascending; what the model has no room for is cut
	KV       string // precision of keys and values; "" = as the library would choose
	KVRAM    int64  // memory for them; 0 = for kvHotTokens tokens, or what a plan leaves
	// RAM limits weights, keys and values together: a size, or a percentage of the
	// bytes of the model's tensors. It needs a pack. "" = all weights stay in memory.
	RAM     string
	Disk    llmrun.DiskSpeed // that the model and the keys and values are read with
	Dir     string           // where keys and values go
	Threads int              // 0 = the fast cores
	Decode  int              // tokens of a measurement
	Repeats int
	Running func(done, total int64) // may be nil
}

// kvHotTokens is for how many tokens there is memory where nothing is said.
const kvHotTokens = 2048

// KVReport is how long a token takes to decode behind contexts whose keys and
// values are in memory or on flash.
type KVReport struct {
	Model   string        `json:"model"`
	Machine bench.Machine `json:"machine"`
	Threads int           `json:"threads"`
	KV      string        `json:"kv"`
	KVRAM   int64         `json:"kv_ram_bytes"`
	Disk    int64         `json:"disk_bytes_per_s,omitempty"` // that reads were slowed down to
	// Streamed says that weights are on flash as well: there is no row with all in
	// memory then, and no crossing.
	Streamed bool  `json:"weights_streamed"`
	RAM      int64 `json:"ram_bytes,omitempty"`

	Layers       int     `json:"layers"`
	TokenBytes   int64   `json:"kv_bytes_per_token"` // of all layers
	HeadFraction float64 `json:"head_share"`         // of the products that a token takes, the output matrix has
	Ring         int64   `json:"ring_bytes"`         // keys and values pass through
	// PlacementCost is how much longer a token takes in the copy of the model that has flash,
	// because of where it lies in memory. It is part of what rows say of memory.
	PlacementCost float64 `json:"apart_ms"`

	Rows    []KVRow   `json:"rows"`
	Summary KVSummary `json:"summary"`
}

// KVRow is one context. Times are of a token, medians.
type KVRow struct {
	Context int   `json:"context"`
	Cold    int64 `json:"cold_bytes"` // of keys and values on flash, which each token needs
	Read    int64 `json:"read_bytes_per_token"`
	Weights int64 `json:"weights_read_bytes_per_token,omitempty"`
	// Flash is measured just before and after, with reads of the same size: of the
	// file with keys and values, and of the weights that are not in memory. The
	// better of the two counts.
	FlashGBs   float64 `json:"flash_gb_s,omitempty"`
	WeightsGBs float64 `json:"weights_flash_gb_s,omitempty"`

	Memory  float64 `json:"memory_ms,omitempty"`           // all in memory, with Apart
	Without float64 `json:"without_prefetch_ms,omitempty"` // layers ask when they need
	With    float64 `json:"with_prefetch_ms"`
	Ratio   float64 `json:"with_prefetch_of_memory,omitempty"` // median of those measured in turns
	Stalled float64 `json:"stalled_ms"`                        // of With, attention waited
	// Of all processors together, for a token: with all in memory, and prefetched.
	MemoryWork float64 `json:"memory_processor_ms,omitempty"`
	WithWork   float64 `json:"with_prefetch_processor_ms,omitempty"`
	// Predicted is With as the row's flash and its time in memory make it. With
	// weights on flash it is the least that the bytes of both take.
	Predicted float64 `json:"predicted_ms"`
}

// kvModes are what is measured in turns.
const (
	inMemory = iota
	onDemand
	prefetched
	kvModes
)

// KVCurves measures a token behind each context: with all keys and values in
// memory, with older ones on flash that are asked for when they are needed, and
// before. With weights on flash as well it measures only the last.
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

// kvContexts returns the contexts in order, those cut that are longer than most.
func kvContexts(list []int, most int) (out []int, err error) {
	for _, n := range list {
		n = min(n, most)
		if n < 1 {
			return nil, fmt.Errorf("%w: the model was made for too few tokens, %d more than there are to generate", bench.ErrBench, most)
		}
		out = append(out, n)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// measure measures one context. Contexts come in ascending order, so that what
// went to flash for one is there for the next.
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
