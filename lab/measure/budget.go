package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// BudgetOptions configure Budgets. Each combination of a model, a fraction and a context is a
// configuration.
type BudgetOptions struct {
	Paths     []string  // packs
	Fractions []float64 // of the bytes of a model's tensors, 1 for all of them
	Contexts  []int
	Prompt    int // tokens
	Decode    int // tokens after the first
	Threads   int
	Disk      llmrun.DiskSpeed        // speed at which packs are read
	Running   func(done, total int64) // may be nil
}

// BudgetReport compares the measured and predicted speed of models under memory budgets.
type BudgetReport struct {
	Machine bench.Machine `json:"machine"`
	Rows    []BudgetRow   `json:"rows"`
	// Within is the fraction of the configurations whose decoding speed was predicted within 20 %.
	Within float64 `json:"predicted_within_20_percent"`
}

// BudgetRow is the result of one configuration.
type BudgetRow struct {
	Model    string  `json:"model"`
	Fraction float64 `json:"share"` // of the tensors' bytes; 0 = no limit
	RAM      int64   `json:"ram_bytes"`
	Context  int     `json:"context"`
	Refused  string  `json:"refused,omitempty"`

	Streamed int64 `json:"read_bytes_per_token"`
	// FlashGBs and FlashAfter are the speed of flash before and after the run, with the same
	// reads. A run is repeated if the speed changed.
	FlashGBs   float64 `json:"flash_gb_s"`
	FlashAfter float64 `json:"flash_after_gb_s"`
	planned    float64 // flash speed of the prediction
	Tries      int     `json:"tries"`

	Prefill    float64 `json:"prefill_tok_per_s"`
	PromptRead int64   `json:"read_bytes_for_prompt"`
	Decode     float64 `json:"decode_tok_per_s"`
	Predicted  struct {
		Prefill float64 `json:"prefill_tok_per_s"`
		Decode  float64 `json:"decode_tok_per_s"`
	} `json:"predicted"`
	// Bound is the upper bound of the decoding speed: the time that flash takes for weights
	// outside memory, or the speed without a limit if that is slower.
	Bound   float64 `json:"bound_tok_per_s"`
	OfBound float64 `json:"of_bound"`
	// PrefillBound is the upper bound of prefill: flash reads the weights outside memory once.
	PrefillBound   float64 `json:"prefill_bound_tok_per_s"`
	OfPrefillBound float64 `json:"of_prefill_bound"`
	Stalled        float64 `json:"stalled"` // fraction of the decoding time
	// Same reports whether the tokens equal those without a limit.
	Same bool `json:"same_tokens"`
}

// ErrPack reports a model that is not a pack.
var ErrPack = errors.New("is not a pack: import it first")

// Budgets runs every model without a limit and then under every budget.
func Budgets(ctx context.Context, o BudgetOptions) (*BudgetReport, error) {
	r := &BudgetReport{Machine: bench.ThisMachine()}
	if least := slices.Min(o.Contexts); o.Prompt+o.Decode > least {
		return nil, fmt.Errorf("%w: a prompt of %d tokens and %d generated tokens exceed the context of %d", bench.ErrBench, o.Prompt, o.Decode, least)
	}
	total := int64(len(o.Paths) * len(o.Contexts) * (1 + len(o.Fractions)))
	for _, path := range o.Paths {
		model, err := describePack(path)
		if err != nil {
			return nil, err
		}
		for _, context := range o.Contexts {
			var whole *budgetRun
			for _, fraction := range append([]float64{0}, o.Fractions...) {
				row := BudgetRow{Model: filepath.Base(path), Fraction: fraction, Context: context, RAM: int64(fraction * float64(model.bytes))}
				run, err := steadiest(ctx, &budgetRun{o: &o, model: model, unlimited: whole, row: row})
				if err != nil {
					return nil, err
				}
				if fraction == 0 {
					whole = run
				}
				r.Rows = append(r.Rows, run.row)
				if o.Running != nil {
					o.Running(int64(len(r.Rows)), total)
				}
			}
		}
	}
	r.Within = r.within()
	return r, nil
}

// within returns the fraction of the rows that were predicted within 20 %.
func (r *BudgetReport) within() float64 {
	good, all := 0, 0
	for _, row := range r.Rows {
		if row.Refused != "" {
			continue
		}
		all++
		if math.Abs(row.Predicted.Decode/row.Decode-1) <= 0.2 {
			good++
		}
	}
	return float64(good) / float64(max(1, all))
}

// packModel describes the pack of a measurement.
type packModel struct {
	path  string
	bytes int64 // of its tensors
	vocab int
	rows  bool // an embedding, or that of the layers, is not the output matrix: its rows come from flash
}

func describePack(path string) (m packModel, err error) {
	f, err := modelfile.Open(vfs.OS(), path)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if f.Packed() == nil {
		return m, fmt.Errorf("%s %w", path, ErrPack)
	}
	spec, err := f.Spec()
	if err != nil {
		return m, err
	}
	shape, _, err := exec.MeasureShape(f, exec.ShapeOptions{Threads: 1, KV: kv.K8V8})
	if err != nil {
		return m, err
	}
	return packModel{path: path, vocab: spec.Vocab, rows: shape.Embedding > 0 || spec.PerLayer > 0, bytes: f.TensorBytes()}, nil
}

// budgetRun is one measurement of a configuration.
type budgetRun struct {
	o         *BudgetOptions
	model     packModel
	unlimited *budgetRun // the run without a limit; nil if this is that run
	row       BudgetRow
	ids       []int32 // generated tokens
}

// steadiest measures a configuration until the speed of flash was steady, at most steadyTries
// times. It returns the run with the smallest change.
func steadiest(ctx context.Context, b *budgetRun) (best *budgetRun, err error) {
	for try := 1; try <= steadyTries; try++ {
		run := *b
		if err := run.do(ctx); err != nil {
			return nil, err
		}
		if best == nil || run.row.drift() < best.row.drift() {
			best = &run
		}
		best.row.Tries = try
		if best.row.drift() <= steadyFlash {
			break
		}
	}
	return best, nil
}

// do measures the configuration.
func (b *budgetRun) do(ctx context.Context) error {
	// Without a cache directory, opening the model measures the machine each time. Pin is anon
	// because promoting mapped weights would slow the first passes.
	opts := llmrun.Options{Threads: b.o.Threads, Context: b.row.Context, Memory: llmrun.MemoryOptions{RAM: b.row.RAM, Pin: "anon"}, Lab: llmrun.LabOptions{Disk: b.o.Disk, Measure: true}}
	if b.row.RAM == 0 {
		opts.Memory.RAM = llmrun.NoLimit
	}
	engine, err := llmrun.OpenContext(ctx, b.model.path, opts)
	var refused *llmrun.MinimumError
	if errors.As(err, &refused) {
		b.row.Refused = refused.Error()
		return nil
	}
	if err != nil {
		return err
	}
	err = b.generate(ctx, engine)
	return errors.Join(err, engine.Close())
}

// generate prefills a prompt of random tokens several times, and decodes after the last one.
func (b *budgetRun) generate(ctx context.Context, engine *llmrun.Engine) (err error) {
	plan := engine.Memory().Plan
	random := rand.New(rand.NewPCG(1, 2))
	prompt := make([]int32, b.o.Prompt)
	for i := range prompt {
		prompt[i] = int32(random.IntN(b.model.vocab))
	}
	if b.row.FlashGBs, err = flash(b.model.path, b.o.Disk, plan.Piece); err != nil {
		return err
	}
	var prefill []float64
	var stats llmrun.Stats
	for i := range budgetPrompts {
		tokens := 1
		if i == budgetPrompts-1 {
			tokens += b.o.Decode
		}
		if b.ids, stats, err = generateIDs(ctx, engine, prompt, tokens); err != nil {
			return err
		}
		prefill = append(prefill, stats.PrefillTokPerS())
	}
	if b.row.FlashAfter, err = flash(b.model.path, b.o.Disk, plan.Piece); err != nil {
		return err
	}
	b.record(plan, stats)
	b.row.Prefill = bench.Median(prefill)
	b.compare(plan)
	return nil
}

// budgetPrompts is the number of prefills; the median excludes the first, which touches new
// memory, and pauses of the machine.
const budgetPrompts = 3

// generateIDs answers a prompt in a new session.
func generateIDs(ctx context.Context, engine *llmrun.Engine, prompt []int32, tokens int) (ids []int32, _ llmrun.Stats, err error) {
	session, err := engine.NewSession()
	if err != nil {
		return nil, llmrun.Stats{}, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for piece, err := range session.GenerateIDs(ctx, prompt, llmrun.GenerateOptions{MaxTokens: tokens, IgnoreEOS: true}) {
		if err != nil {
			return nil, llmrun.Stats{}, err
		}
		ids = append(ids, piece.ID)
	}
	return ids, session.Stats(), nil
}

// record fills in the measurements.
func (b *budgetRun) record(plan llmrun.Plan, stats llmrun.Stats) {
	row := &b.row
	row.planned = plan.Rates.ReadGBs
	row.Predicted.Prefill, row.Predicted.Decode = plan.PredictedPrefill, plan.PredictedDecode
	row.Decode = stats.DecodeTokPerS()
	row.Streamed = stats.DecodeFlash.Bytes / int64(max(1, stats.GeneratedTokens-1))
	row.Stalled = stats.DecodeFlash.Stalled.Seconds() / max(stats.Decode, 1).Seconds()
	row.PromptRead = stats.PrefillFlash.Bytes
}

// compare compares the measurements with those without a limit.
func (b *budgetRun) compare(plan llmrun.Plan) {
	row := &b.row
	row.Same, row.Bound, row.PrefillBound = true, row.Decode, row.Prefill
	if b.unlimited != nil {
		row.Same = slices.Equal(b.ids, b.unlimited.ids)
		row.Bound = row.bound(b.unlimited.row.Decode, 1, row.Streamed)
		row.PrefillBound = row.bound(b.unlimited.row.Prefill, b.o.Prompt, max(plan.StreamedPerToken, plan.StreamedPerChunk))
	}
	row.OfBound, row.OfPrefillBound = row.Decode/row.Bound, row.Prefill/row.PrefillBound
}

// bound returns the upper bound of the speed for tokens that read bytes from flash: the speed of
// those reads, or the speed without a limit if that is slower.
func (r *BudgetRow) bound(whole float64, tokens int, bytes int64) float64 {
	if bytes == 0 {
		return whole
	}
	return min(whole, float64(tokens)*r.FlashGBs*1e9/float64(bytes))
}
