package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// SpillOptions configure Spills: a text that grows beyond the memory of its keys and values.
type SpillOptions struct {
	Path    string
	Context int    // tokens before the measured ones, with synthetic keys and values
	Decode  int    // measured tokens
	KV      string // precision of keys and values; "" = the library's default
	KVRAM   int64  // memory for them
	Disk    llmrun.DiskSpeed
	Dir     string // directory of keys and values on flash
	Threads int    // 0 = the fast cores
	Repeats int
	Running func(done, total int64) // may be nil
}

// SpillReport compares the slowest tokens with the median, with and without writing behind.
type SpillReport struct {
	Model      string        `json:"model"`
	Machine    bench.Machine `json:"machine"`
	Threads    int           `json:"threads"`
	KV         string        `json:"kv"`
	KVRAM      int64         `json:"kv_ram_bytes"`
	Disk       int64         `json:"disk_bytes_per_s,omitempty"`
	TokenBytes int64         `json:"kv_bytes_per_token"`
	Context    int           `json:"context"`
	Rows       []SpillRow    `json:"rows"`
}

// SpillRow is one text.
type SpillRow struct {
	Behind  bool    `json:"written_behind"`
	Tokens  int     `json:"tokens"`
	Median  float64 `json:"median_ms"`
	P99     float64 `json:"p99_ms"`
	Slowest float64 `json:"slowest_ms"`
	Over    int     `json:"tokens_over_1.5_medians"`
	Spills  int     `json:"spills"` // how often pages left memory
	// OfSpills is the slowest of the tokens at which pages left memory.
	OfSpills float64 `json:"slowest_spill_ms"`
	// OfNear is the largest ratio of such a token to the median of the nearTokens tokens on each
	// side of it, which read about as many bytes, and MedianOfNear the median of these ratios, which
	// other load on the machine changes less.
	OfNear       float64 `json:"slowest_spill_of_near"`
	MedianOfNear float64 `json:"median_spill_of_near"`
	// Grown is the largest growth, from one token to the next, of the bytes on flash that it reads.
	Grown   int64   `json:"most_grown_bytes"`
	Stalled float64 `json:"spill_stall_ms"`
	Written int64   `json:"written_bytes"`
}

// nearTokens is the number of tokens on each side that a token is compared with.
const nearTokens = 24

// Spills decodes the same text several times, with writing behind and without it in turns.
func Spills(ctx context.Context, o SpillOptions) (r *SpillReport, err error) {
	if o.Threads == 0 {
		o.Threads = threadpool.DefaultThreads()
	}
	r = &SpillReport{Model: filepath.Base(o.Path), Machine: bench.ThisMachine(), Threads: o.Threads, KVRAM: o.KVRAM, Disk: o.Disk.BytesPerSecond, Context: o.Context}
	b := &kvBench{o: &KVOptions{Path: o.Path, KV: o.KV, Threads: o.Threads}, r: &KVReport{}, disk: vfs.OS()}
	if o.Disk != (llmrun.DiskSpeed{}) {
		b.disk = vfs.Throttled(b.disk, o.Disk.BytesPerSecond, o.Disk.Latency)
	}
	budget := tiering.New(0)
	side, err := b.load(ctx, exec.Options{
		Threads: o.Threads, Budget: budget, KVHot: o.KVRAM, KVRing: kvRing, KVSpill: kv.NewScratch(b.disk, vfs.Join(o.Dir, "kv"), budget),
	}, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, side.close()) }()
	r.KV, r.TokenBytes = b.r.KV, side.model.KVBytesPerToken()
	if most := side.model.Spec.Context - 1; o.Context+o.Decode > most {
		return nil, fmt.Errorf("%w: the model's context has room for %d tokens", bench.ErrBench, most)
	}
	total := int64(2 * o.Repeats)
	for turn := range total {
		row, err := side.spills(ctx, &o, turn%2 == 1)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
		if o.Running != nil {
			o.Running(turn+1, total)
		}
	}
	return r, nil
}

// spills decodes one text and times each token.
func (s *kvSide) spills(ctx context.Context, o *SpillOptions, behind bool) (row SpillRow, err error) {
	exec.WriteKVLate(s.model, !behind)
	s.sequence.Truncate(0)
	if err := s.reach(ctx, o.Context); err != nil {
		return row, err
	}
	row.Behind, row.Tokens = behind, o.Decode
	before := s.model.KVStats()
	cold, read, all := before.ColdPages, int64(0), before.Cold
	var times []float64
	var spills []int // their tokens
	for i := range o.Decode {
		begun := time.Now()
		if err := s.bench.Generate(ctx, s.sequence, 1); err != nil {
			return row, err
		}
		ms := 1e3 * time.Since(begun).Seconds()
		times = append(times, ms)
		now := s.model.KVStats()
		if now.ColdPages != cold {
			cold, spills = now.ColdPages, append(spills, i)
			row.OfSpills = max(row.OfSpills, ms)
		}
		row.Grown = max(row.Grown, now.Cold-all-read)
		read, all = now.Cold-all, now.Cold
	}
	row.Spills = len(spills)
	row.OfNear, row.MedianOfNear = ofNear(times, spills)
	after := s.model.KVStats()
	row.Stalled, row.Written = 1e3*(after.SpillStalled-before.SpillStalled).Seconds(), after.Written-before.Written
	row.Median, row.Slowest = bench.Median(times), slices.Max(times)
	slices.Sort(times)
	row.P99 = times[len(times)*99/100]
	for _, ms := range times {
		if ms > 1.5*row.Median {
			row.Over++
		}
	}
	return row, nil
}

// ofNear returns the largest and the median ratio of some tokens to the median of those near them.
func ofNear(times []float64, tokens []int) (most, median float64) {
	if len(tokens) == 0 {
		return 0, 0
	}
	var ratios []float64
	for _, i := range tokens {
		ratios = append(ratios, times[i]/bench.Median(slices.Clone(times[max(0, i-nearTokens):min(len(times), i+nearTokens+1)])))
	}
	return slices.Max(ratios), bench.Median(ratios)
}

// WriteTable writes the report in Markdown.
func (r *SpillReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "| written | tokens | median | 99 %% | slowest | ÷ median | over 1.5 | spills | slowest of them | ÷ median | ÷ tokens near it | median of these | most bytes more than the token before | waited for writes | written |\n")
	fmt.Fprintf(w, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		mode := "when a token needs room"
		if row.Behind {
			mode = "behind"
		}
		fmt.Fprintf(w, "| %s | %d | %.2f ms | %.2f ms | %.2f ms | %.2f | %d | %d | %.2f ms | %.2f | %.2f | %.2f | %.1f MB | %.1f ms | %.1f MB |\n",
			mode, row.Tokens, row.Median, row.P99, row.Slowest, row.Slowest/row.Median, row.Over, row.Spills, row.OfSpills, row.OfSpills/row.Median, row.OfNear, row.MedianOfNear, float64(row.Grown)/1e6, row.Stalled, float64(row.Written)/1e6)
	}
	fmt.Fprintf(w, "\n%s, %d threads, keys and values in %s, %.1f MB in memory, %d bytes per token, after %d tokens of context.\n",
		r.Model, r.Threads, r.KV, float64(r.KVRAM)/1e6, r.TokenBytes, r.Context)
}
