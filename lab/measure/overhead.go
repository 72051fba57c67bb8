package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
)

// OverheadOptions configure Overheads.
type OverheadOptions struct {
	Paths   []string // packs
	Rounds  int      // pairs per comparison
	Decode  int      // tokens per measurement
	Threads int
	Disk    llmrun.DiskSpeed        // speed of reading the model
	Flash   string                  // how it is read, as MemoryOptions.Flash; "": direct
	Running func(done, total int64) // may be nil
}

// OverheadReport holds two costs that should be close to zero.
type OverheadReport struct {
	Machine bench.Machine `json:"machine"`
	Flash   string        `json:"flash"` // direct or mmap
	Rows    []OverheadRow `json:"rows"`
}

// OverheadRow holds the costs for one model.
type OverheadRow struct {
	Model string `json:"model"`
	// Budget compares a budget in which all weights fit with no budget.
	Budget Paired `json:"resident_under_budget"`
	// Embedding compares random tokens, whose embedding rows come from flash, with one repeated
	// token, whose row is in memory. It is nil if the embedding is also the output matrix, which
	// stays in memory, and the layers have none of their own.
	Embedding *Paired `json:"embedding_on_flash"`
}

// Paired compares two variants that were measured in turns.
type Paired struct {
	Pairs   int     `json:"pairs"`
	With    float64 `json:"with_ms"`    // per token, median
	Without float64 `json:"without_ms"` // per token, median
	// Cost is the relative extra time: the median ratio of consecutive measurements, minus 1. Half
	// of the ratios are between Low and High.
	Cost float64 `json:"cost"`
	Low  float64 `json:"cost_low"`
	High float64 `json:"cost_high"`

	with, without, ratios []float64
}

// add records the times per token of a pair.
func (p *Paired) add(took [2]time.Duration) {
	with, without := took[0].Seconds(), took[1].Seconds()
	p.with, p.without = append(p.with, 1e3*with), append(p.without, 1e3*without)
	p.ratios = append(p.ratios, with/without)
}

func (p *Paired) summarize() {
	p.Pairs = len(p.ratios)
	p.With, p.Without, p.Cost = bench.Median(p.with), bench.Median(p.without), bench.Median(p.ratios)-1
	n := len(p.ratios) // sorted
	p.Low, p.High = p.ratios[n/4]-1, p.ratios[n-1-n/4]-1
}

// ErrNotResident reports a model that does not fit in its budget.
var ErrNotResident = errors.New("does not fit in memory")

const (
	// roomy and roomyMore give a budget in which a model fits: a multiple of its tensors' bytes,
	// and bytes for everything else.
	roomy     = 1.25
	roomyMore = 256 << 20
	// overheadContext is the context of the sessions.
	overheadContext = 512
)

// Overheads measures the cost of a budget that holds everything, and of an embedding on flash. The
// variants take turns, so that other load affects both. They run in the same open model, because
// the address of the weights makes a model permanently faster or slower.
func Overheads(ctx context.Context, o OverheadOptions) (*OverheadReport, error) {
	r := &OverheadReport{Machine: bench.ThisMachine(), Flash: cmp.Or(o.Flash, "direct")}
	o.Flash = r.Flash
	for _, path := range o.Paths {
		row, err := overhead(ctx, path, &o, int64(len(r.Rows)))
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// overhead compares one model. models is the number of models before it.
func overhead(ctx context.Context, path string, o *OverheadOptions, models int64) (row OverheadRow, err error) {
	model, err := describePack(path)
	if err != nil {
		return row, err
	}
	row.Model = filepath.Base(path)
	budget := int64(roomy*float64(model.bytes)) + roomyMore
	m, err := openOverhead(ctx, path, budget, o)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, m.engine.Close()) }()
	if model.rows {
		row.Embedding = &Paired{}
	}
	random := rand.New(rand.NewPCG(3, 4))
	budgets := [2]int64{budget, llmrun.NoLimit}
	for round := range o.Rounds {
		took, err := inTurns(round, func(i int) (time.Duration, error) { return m.decodeUnder(ctx, budgets[i], o.Decode) })
		if err != nil {
			return row, err
		}
		row.Budget.add(took)
		for i := 0; row.Embedding != nil && i < o.Decode; i++ {
			ids := [2]int32{int32(random.IntN(model.vocab)), 0}
			took, err := inTurns(i, func(i int) (time.Duration, error) { return m.read(ctx, ids[i]) })
			if err != nil {
				return row, err
			}
			row.Embedding.add(took)
		}
		if o.Running != nil {
			o.Running(models*int64(o.Rounds)+int64(round)+1, int64(len(o.Paths)*o.Rounds))
		}
	}
	row.Budget.summarize()
	if row.Embedding != nil {
		row.Embedding.summarize()
	}
	return row, nil
}

// inTurns measures two variants. The one that goes first alternates.
func inTurns(round int, measure func(i int) (time.Duration, error)) (took [2]time.Duration, err error) {
	for k := range took {
		i := (round + k) % len(took)
		if took[i], err = measure(i); err != nil {
			return took, err
		}
	}
	return took, nil
}

// overheadModel is an open model with a session.
type overheadModel struct {
	engine  *llmrun.Engine
	session *llmrun.Session
}

// openOverhead opens a model under a budget and warms up.
func openOverhead(ctx context.Context, path string, ram int64, o *OverheadOptions) (*overheadModel, error) {
	engine, err := llmrun.OpenContext(ctx, path, llmrun.Options{Threads: o.Threads, Context: overheadContext, Memory: llmrun.MemoryOptions{RAM: ram, Pin: "anon", Flash: o.Flash}, Lab: llmrun.LabOptions{Disk: o.Disk}})
	if err != nil {
		return nil, err
	}
	m := &overheadModel{engine: engine}
	if plan := engine.Memory().Plan; !plan.Resident() {
		err = fmt.Errorf("%s %w of %d bytes", path, ErrNotResident, ram)
	} else if m.session, err = engine.NewSession(); err == nil {
		_, err = m.decodeUnder(ctx, ram, o.Decode)
	}
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return m, nil
}

// decodeUnder returns the time per generated token under a budget. Changing the budget does not
// move weights.
func (m *overheadModel) decodeUnder(ctx context.Context, ram int64, tokens int) (time.Duration, error) {
	if err := m.engine.SetBudget(ram); err != nil {
		return 0, err
	}
	return m.decode(ctx, tokens)
}

// decode returns the time per generated token.
func (m *overheadModel) decode(ctx context.Context, tokens int) (time.Duration, error) {
	if err := m.generate(ctx, []int32{1, 2, 3, 4}, tokens+1); err != nil {
		return 0, err
	}
	return m.session.Stats().Decode / time.Duration(tokens), nil
}

// read returns the time to prefill a prompt of one token.
func (m *overheadModel) read(ctx context.Context, id int32) (time.Duration, error) {
	if err := m.generate(ctx, []int32{id}, 1); err != nil {
		return 0, err
	}
	return m.session.Stats().Prefill, nil
}

// generate resets the session and generates.
func (m *overheadModel) generate(ctx context.Context, ids []int32, tokens int) error {
	if err := m.session.Reset(); err != nil {
		return err
	}
	for _, err := range m.session.GenerateIDs(ctx, ids, llmrun.GenerateOptions{MaxTokens: tokens, IgnoreEOS: true}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// WriteTable writes the report as a table in Markdown.
func (r *OverheadReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "| model | all in memory, no limit | under a budget | cost | half between | a repeated token | random tokens, embedding on flash | cost | half between |\n|%s\n", strings.Repeat("---|", 9))
	for _, row := range r.Rows {
		fmt.Fprintf(w, "| %s | ", row.Model)
		row.Budget.write(w)
		if row.Embedding != nil {
			row.Embedding.write(w)
		} else {
			fmt.Fprint(w, "in memory: it is also the output matrix | | | |")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nMilliseconds per token, medians. Costs are medians of the ratios of consecutive measurements; half of the ratios are in the range of the column after. Flash reads are %s.\n", r.Flash)
}

// write writes the comparison as cells of a row.
func (p *Paired) write(w io.Writer) {
	fmt.Fprintf(w, "%.2f ms | %.2f ms | %+.2f %% | %+.2f to %+.2f %% | ", p.Without, p.With, 100*p.Cost, 100*p.Low, 100*p.High)
}
