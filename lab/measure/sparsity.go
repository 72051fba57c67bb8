package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/enginemodel"
)

// SparsityOptions configure FindSparsity.
type SparsityOptions struct {
	FS      fs.FS
	Path    string // of the model
	Text    string
	Context int // tokens of a window
	Threads int
	Running func(done, total int64) // perplexities; may be nil
}

// SparsityReport is how the perplexity of a model grows when MLPs use only some of their columns: for each token those
// with the largest activations. No predictor chooses better ones by magnitude.
type SparsityReport struct {
	Model   string        `json:"model"`
	Machine bench.Machine `json:"machine"`
	Columns int           `json:"columns"` // of an MLP
	Scored  int           `json:"scored"`  // tokens
	Rows    []SparsityRow `json:"rows"`    // all columns first
	// Needed is the row with the fewest columns whose perplexity grows by 1 per cent at most.
	Needed SparsityRow `json:"needed"`
}

// SparsityRow is the result for one fraction of the columns.
type SparsityRow struct {
	Kept   float64 `json:"kept"` // fraction of columns that a token uses
	PPL    float64 `json:"ppl"`
	Change float64 `json:"change"` // relative to all columns
	// Union is the fraction of columns that a chunk of SparsityChunks tokens in a row uses, in the mean over chunks and layers.
	Union [len(SparsityChunks)]float64 `json:"union"`
}

// SparsityChunks are the lengths of chunks for which unions are counted.
var SparsityChunks = [...]int{8, 16}

const (
	// sparsityLimit is the growth of the perplexity that Needed allows.
	sparsityLimit = 0.01
	// sparsitySteps is how finely Needed is searched: in per cent.
	sparsitySteps = 100
)

// sparsityKept are the fractions of the table, in per cent.
var sparsityKept = []int{100, 90, 80, 70, 60, 50, 40, 30, 20, 10}

// FindSparsity measures the perplexity of a text with fewer and fewer columns of the MLPs.
func FindSparsity(ctx context.Context, o SparsityOptions) (r *SparsityReport, err error) {
	e, err := llmrun.OpenContext(ctx, o.Path, llmrun.Options{FS: o.FS, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	s := &sparsity{engine: e, o: &o, down: map[*weights.Linear]bool{}}
	r = &SparsityReport{Model: path.Base(o.Path), Machine: bench.ThisMachine()}
	for name, w := range enginemodel.Of(e).Matrices() {
		if strings.HasSuffix(name, ".ffn_down.weight") {
			s.down[w], r.Columns = true, w.Cols
		}
	}
	if len(s.down) == 0 {
		return nil, fmt.Errorf("%s has no MLP that every token uses", o.Path)
	}
	if s.ids, err = e.Tokenizer().Encode(o.Text, llmrun.EncodeOptions{}); err != nil {
		return nil, err
	}
	for _, kept := range sparsityKept {
		row, err := s.measure(ctx, kept)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, row)
	}
	r.Scored = s.scored
	r.Needed, err = s.search(ctx)
	return r, err
}

// sparsity is the state of one FindSparsity.
type sparsity struct {
	engine *llmrun.Engine
	o      *SparsityOptions
	ids    []int32
	down   map[*weights.Linear]bool
	all    float64 // perplexity with all columns
	scored int
	done   int64

	keep  int // columns of a token
	sizes []float32
	used  []bool
	sums  [len(SparsityChunks)]float64
	count [len(SparsityChunks)]int
}

// search finds the fewest columns, in per cent, whose perplexity is within the limit.
func (s *sparsity) search(ctx context.Context) (best SparsityRow, err error) {
	low, high := 0, sparsitySteps // the perplexity is within the limit at high
	for high-low > 1 || best.Kept == 0 {
		at := (low + high + 1) / 2
		row, err := s.measure(ctx, at)
		if err != nil {
			return row, err
		}
		if row.Change <= sparsityLimit {
			high, best = at, row
			continue
		}
		if low = at; at == high {
			return row, errors.New("the perplexity with all columns is not reproducible")
		}
	}
	return best, nil
}

// measure computes the perplexity with a part of the columns, in per cent.
func (s *sparsity) measure(ctx context.Context, kept int) (row SparsityRow, err error) {
	m := enginemodel.Of(s.engine)
	s.sums, s.count = [len(SparsityChunks)]float64{}, [len(SparsityChunks)]int{}
	m.Observe(func(w *weights.Linear, rows int, input func(int) []float32) {
		if s.down[w] {
			s.keep = max(1, w.Cols*kept/sparsitySteps)
			s.drop(rows, input)
		}
	})
	defer m.Observe(nil)
	p, err := s.engine.Perplexity(ctx, s.ids, llmrun.PerplexityOptions{Context: s.o.Context})
	if err != nil {
		return row, err
	}
	if s.scored = p.Scored; s.all == 0 {
		s.all = p.PPL
	}
	row = SparsityRow{Kept: float64(kept) / sparsitySteps, PPL: p.PPL, Change: p.PPL/s.all - 1}
	for i := range row.Union {
		row.Union[i] = s.sums[i] / float64(max(1, s.count[i]))
	}
	if s.done++; s.o.Running != nil {
		const bisections = 7
		s.o.Running(s.done, int64(len(sparsityKept)+bisections))
	}
	return row, nil
}

// drop sets the smallest activations of each token to zero, and counts the others.
func (s *sparsity) drop(rows int, input func(int) []float32) {
	for i := range rows {
		x := input(i)
		least := s.threshold(x)
		for k, v := range x {
			if abs32(v) < least {
				x[k] = 0
			}
		}
	}
	for i, n := range SparsityChunks {
		for at := 0; at+n <= rows; at += n {
			s.sums[i] += s.union(at, n, input)
			s.count[i]++
		}
	}
}

// threshold returns the least magnitude of a token that is kept.
func (s *sparsity) threshold(x []float32) float32 {
	s.sizes = s.sizes[:0]
	for _, v := range x {
		s.sizes = append(s.sizes, abs32(v))
	}
	slices.Sort(s.sizes)
	return s.sizes[len(x)-s.keep]
}

// union returns the fraction of columns that some of n tokens use.
func (s *sparsity) union(first, n int, input func(int) []float32) float64 {
	cols := len(input(first))
	s.used = append(s.used[:0], make([]bool, cols)...)
	used := 0
	for i := range n {
		for k, v := range input(first + i) {
			if v != 0 && !s.used[k] {
				s.used[k] = true
				used++
			}
		}
	}
	return float64(used) / float64(cols)
}

func abs32(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// WriteTable writes the report in Markdown.
func (r *SparsityReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%s, %d columns in each MLP, %d tokens scored\n\n", r.Model, r.Columns, r.Scored)
	fmt.Fprintf(w, "| columns of a token | perplexity | change | union of %d tokens | union of %d tokens |\n|---:|---:|---:|---:|---:|\n", SparsityChunks[0], SparsityChunks[1])
	for _, row := range r.Rows {
		row.write(w)
	}
	fmt.Fprintf(w, "\nThe fewest with at most %.0f %% more:\n\n", 100*sparsityLimit)
	r.Needed.write(w)
}

func (r *SparsityRow) write(w io.Writer) {
	fmt.Fprintf(w, "| %.0f %% | %.3f | %+.2f %% | %.1f %% | %.1f %% |\n", 100*r.Kept, r.PPL, 100*r.Change, 100*r.Union[0], 100*r.Union[1])
}
