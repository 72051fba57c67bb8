package measure

import (
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

// OverheadOptions say what to compare.
type OverheadOptions struct {
	Paths   []string // packs
	Rounds  int      // pairs of each comparison
	Decode  int      // tokens of a measurement
	Threads int
	Running func(done, total int64) // may be nil
}

// OverheadReport is what two things cost that should cost next to nothing.
type OverheadReport struct {
	Machine bench.Machine `json:"machine"`
	Rows    []OverheadRow `json:"rows"`
}

// OverheadRow is what they cost one model.
type OverheadRow struct {
	Model string `json:"model"`
	// Budget compares a budget in which all weights fit with none.
	Budget Paired `json:"resident_under_budget"`
	// Embedding compares random tokens, whose rows are read from flash, with one
	// token again and again, whose row is in memory. It is nil where the embedding
	// is the output matrix too, which is in memory.
	Embedding *Paired `json:"embedding_on_flash"`
}

// Paired is a comparison of two things that were measured in turns.
type Paired struct {
	Pairs   int     `json:"pairs"`
	With    float64 `json:"with_ms"`    // for a token, in the middle
	Without float64 `json:"without_ms"` // for a token, in the middle
	// Cost is how much longer it takes with it: the ratio of two that were measured
	// one after the other, in the middle, less 1. Half of those ratios are between
	// Low and High.
	Cost float64 `json:"cost"`
	Low  float64 `json:"cost_low"`
	High float64 `json:"cost_high"`

	with, without, ratios []float64
}

// add notes how long a token took with and without.
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

// ErrNotResident says that a model does not stay in memory as it should.
var ErrNotResident = errors.New("does not fit in memory")

const (
	// roomy is a budget in which a model fits, as a share of its tensors' bytes and
	// more bytes for all else.
	roomy     = 1.25
	roomyMore = 256 << 20
	// overheadContext is how many tokens a session may hold.
	overheadContext = 512
)

// Overheads measures what a budget costs that holds everything, and an embedding
// on flash. The things that are compared take turns, so that what else the machine
// does meets both; and in one model, because where in memory a model lies makes it
// faster or slower for good.
func Overheads(ctx context.Context, o OverheadOptions) (*OverheadReport, error) {
	r := &OverheadReport{Machine: bench.ThisMachine()}
	for _, path := range o.Paths {
		row, err := overhead(ctx, path, &o, int64(len(r.Rows)))
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// overhead compares one model. models is how many were compared before.
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
	if !model.tied {
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

// inTurns measures two things, another one first each time.
func inTurns(round int, measure func(i int) (time.Duration, error)) (took [2]time.Duration, err error) {
	for k := range took {
		i := (round + k) % len(took)
		if took[i], err = measure(i); err != nil {
			return took, err
		}
	}
	return took, nil
}

// overheadModel is a model that is open, with a text.
type overheadModel struct {
	engine  *llmrun.Engine
	session *llmrun.Session
}

// openOverhead opens a model under a budget, and generates to warm up.
func openOverhead(ctx context.Context, path string, ram int64, o *OverheadOptions) (*overheadModel, error) {
	engine, err := llmrun.OpenContext(ctx, path, llmrun.Options{Threads: o.Threads, Context: overheadContext, Memory: llmrun.MemoryOptions{RAM: ram, Pin: "anon"}})
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

// decodeUnder returns how long one of so many tokens takes to generate under a
// budget. All weights stay where they are when it is changed.
func (m *overheadModel) decodeUnder(ctx context.Context, ram int64, tokens int) (time.Duration, error) {
	if err := m.engine.SetBudget(ram); err != nil {
		return 0, err
	}
	if err := m.generate(ctx, []int32{1, 2, 3, 4}, tokens+1); err != nil {
		return 0, err
	}
	return m.session.Stats().Decode / time.Duration(tokens), nil
}

// read returns how long it takes to read a text of one token.
func (m *overheadModel) read(ctx context.Context, id int32) (time.Duration, error) {
	if err := m.generate(ctx, []int32{id}, 1); err != nil {
		return 0, err
	}
	return m.session.Stats().Prefill, nil
}

// generate begins a text anew.
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
	fmt.Fprintf(w, "| model | all in memory, no limit | under a budget | cost | half between | a known token | random ids, embedding on flash | cost | half between |\n|%s\n", strings.Repeat("---|", 9))
	for _, row := range r.Rows {
		fmt.Fprintf(w, "| %s | ", row.Model)
		row.Budget.write(w)
		if row.Embedding != nil {
			row.Embedding.write(w)
		} else {
			fmt.Fprint(w, "in memory, it is the output matrix too | | | |")
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nMilliseconds a token, medians; costs are medians of the ratios of measurements in turns, with what half of these are between.\n")
}

// write writes the comparison as cells of a row.
func (p *Paired) write(w io.Writer) {
	fmt.Fprintf(w, "%.2f ms | %.2f ms | %+.2f %% | %+.2f to %+.2f %% | ", p.Without, p.With, 100*p.Cost, 100*p.Low, 100*p.High)
}
