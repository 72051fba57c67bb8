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

// BudgetOptions say which budgets to try. Each combination of a model, a share
// and a context is a configuration.
type BudgetOptions struct {
	Paths     []string  // packs
	Fractions []float64 // of the bytes of a model's tensors, 1 for all of them
	Contexts  []int
	Prompt    int // tokens
	Decode    int // tokens after the first
	Threads   int
	Disk      llmrun.DiskSpeed        // that packs are read with
	Running   func(done, total int64) // may be nil
}

// BudgetReport is how fast models were under budgets, and how fast they were
// predicted to be.
type BudgetReport struct {
	Machine bench.Machine `json:"machine"`
	Rows    []BudgetRow   `json:"rows"`
	// Within is the share of the configurations whose decoding was predicted
	// within a fifth.
	Within float64 `json:"predicted_within_20_percent"`
}

// BudgetRow is one configuration.
type BudgetRow struct {
	Model    string  `json:"model"`
	Fraction float64 `json:"share"` // of the tensors' bytes; 0 stands for no limit
	RAM      int64   `json:"ram_bytes"`
	Context  int     `json:"context"`
	Refused  string  `json:"refused,omitempty"`

	Streamed int64 `json:"read_bytes_per_token"`
	// Flash is measured just before and just after, with the same reads. A
	// configuration during which it was not steady was run again.
	FlashGBs   float64 `json:"flash_gb_s"`
	FlashAfter float64 `json:"flash_after_gb_s"`
	planned    float64 // as the prediction took it
	Tries      int     `json:"tries"`

	Prefill    float64 `json:"prefill_tok_per_s"`
	PromptRead int64   `json:"read_bytes_for_prompt"`
	Decode     float64 `json:"decode_tok_per_s"`
	Predicted  struct {
		Prefill float64 `json:"prefill_tok_per_s"`
		Decode  float64 `json:"decode_tok_per_s"`
	} `json:"predicted"`
	// Bound is how fast decoding could be at most: as fast as flash brings what is
	// not in memory, or as with everything in memory where that is slower.
	Bound   float64 `json:"bound_tok_per_s"`
	OfBound float64 `json:"of_bound"`
	// PrefillBound is the same of the prompt: all that is not in memory has to come
	// once.
	PrefillBound   float64 `json:"prefill_bound_tok_per_s"`
	OfPrefillBound float64 `json:"of_prefill_bound"`
	Stalled        float64 `json:"stalled"` // share of the time while decoding
	// Same says that the tokens are those of the model without a limit.
	Same bool `json:"same_tokens"`
}

// ErrPack says that a model is no pack.
var ErrPack = errors.New("is no pack: import it first")

// Budgets runs every model under every budget, first without any.
func Budgets(ctx context.Context, o BudgetOptions) (*BudgetReport, error) {
	r := &BudgetReport{Machine: bench.ThisMachine()}
	if least := slices.Min(o.Contexts); o.Prompt+o.Decode > least {
		return nil, fmt.Errorf("%w: a prompt of %d tokens and %d more do not fit a context of %d", bench.ErrBench, o.Prompt, o.Decode, least)
	}
	total := int64(len(o.Paths) * len(o.Contexts) * (1 + len(o.Fractions)))
	for _, path := range o.Paths {
		model, err := describePack(path)
		if err != nil {
			return nil, err
		}
		for _, context := range o.Contexts {
			var whole *budgetRun
			for _, share := range append([]float64{0}, o.Fractions...) {
				row := BudgetRow{Model: filepath.Base(path), Fraction: share, Context: context, RAM: int64(share * float64(model.bytes))}
				run, err := steadiest(ctx, &budgetRun{o: &o, model: model, unlimited: whole, row: row})
				if err != nil {
					return nil, err
				}
				if share == 0 {
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

// within returns the share of the rows that were predicted within a fifth.
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

// packModel is a model that is run under budgets.
type packModel struct {
	path  string
	bytes int64 // of its tensors
	vocab int
	tied  bool // the embedding is the output matrix
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
	shape, err := exec.MeasureShape(f, exec.ShapeOptions{Threads: 1, KV: kv.K8V8})
	if err != nil {
		return m, err
	}
	return packModel{path: path, vocab: spec.Vocab, tied: shape.Embedding == 0, bytes: f.TensorBytes()}, nil
}

// budgetRun is one configuration while it is measured.
type budgetRun struct {
	o         *BudgetOptions
	model     packModel
	unlimited *budgetRun // without a limit; nil if this is it
	row       BudgetRow
	ids       []int32 // that were generated
}

// steadiest measures a configuration until flash was steady meanwhile, or often
// enough, and returns the run during which it changed least.
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
	// Without a cache directory the machine is measured anew each time. Weights that
	// moved to memory during the first passes would slow those.
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

// generate reads a prompt of random tokens, several times, and goes on from there
// the last time.
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

// budgetPrompts is how often a prompt is read: the first time, memory is touched that
// nobody has touched yet, and a machine has pauses.
const budgetPrompts = 3

// generateIDs answers a prompt in a session of its own.
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

// record fills in what was measured.
func (b *budgetRun) record(plan llmrun.Plan, stats llmrun.Stats) {
	row := &b.row
	row.planned = plan.Rates.ReadGBs
	row.Predicted.Prefill, row.Predicted.Decode = plan.PredictedPrefill, plan.PredictedDecode
	row.Decode = stats.DecodeTokPerS()
	row.Streamed = stats.DecodeFlash.Bytes / int64(max(1, stats.GeneratedTokens-1))
	row.Stalled = stats.DecodeFlash.Stalled.Seconds() / max(stats.Decode, 1).Seconds()
	row.PromptRead = stats.PrefillFlash.Bytes
}

// compare compares what was measured with the model without a limit.
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

// bound returns how fast tokens could be at most for which so many bytes are read:
// as flash brings those, or as with everything in memory where that is slower.
func (r *BudgetRow) bound(whole float64, tokens int, bytes int64) float64 {
	if bytes == 0 {
		return whole
	}
	return min(whole, float64(tokens)*r.FlashGBs*1e9/float64(bytes))
}
