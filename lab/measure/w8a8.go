package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/store/vfs"
)

// W8A8Options configure CompareW8A8.
type W8A8Options struct {
	FS      fs.FS  // file system of Path; nil = the operating system's
	Path    string // a directory with safetensors
	Dir     string // directory for the copy with outliers, and for calibrations
	Text    string // the first half calibrates, the second is scored
	Context int    // tokens of a window
	Threads int
	Outliers
	Running func(done, total int64) // may be nil
}

// W8A8Report holds the perplexities of a model with W8A8.
type W8A8Report struct {
	Machine  bench.Machine `json:"machine"`
	Factor   float32       `json:"factor"`   // of injected outliers
	Channels int           `json:"channels"` // of each norm
	Scored   int           `json:"scored"`   // tokens
	Rows     []W8A8Row     `json:"rows"`
}

// W8A8Row is the result of one way to compute one of the models.
type W8A8Row struct {
	Injected bool               `json:"injected"`
	How      string             `json:"how"`
	PPL      float64            `json:"ppl"`
	Change   float64            `json:"change"` // relative to float32 of the same model
	Use      *llmrun.OutlierUse `json:"shadow,omitempty"`
}

// w8a8Ways are the ways to compute the matmuls of a model, float32 first.
var w8a8Ways = []struct {
	how  string
	w8a8 *llmrun.W8A8
}{
	{"float32", nil},
	{"W8A8 without outlier path", &llmrun.W8A8{NoOutlierPath: true}},
	{"W8A8, outlier path for 15 % of the inputs", &llmrun.W8A8{Outliers: 0.15}},
	{"W8A8, outlier path for 50 %", &llmrun.W8A8{Outliers: 0.5}},
	{"W8A8, outlier path where needed", &llmrun.W8A8{}},
	{"W8A8, outlier path for all", &llmrun.W8A8{Outliers: 1}},
}

// CompareW8A8 measures the perplexity of a model and of a copy with injected outliers, in float32
// and with W8A8.
func CompareW8A8(ctx context.Context, o W8A8Options) (*W8A8Report, error) {
	from := bench.FSOf(o.FS)
	injected := filepath.Join(o.Dir, "injected")
	if err := InjectOutliers(from, o.Path, vfs.OS(), injected, o.Outliers); err != nil {
		return nil, err
	}
	r := &W8A8Report{Machine: bench.ThisMachine(), Factor: o.Factor, Channels: o.Channels}
	var done int64
	report := func() {
		if done++; o.Running != nil {
			o.Running(done, int64(2*(1+len(w8a8Ways))))
		}
	}
	half := len(o.Text) / 2
	for _, m := range []struct {
		injected bool
		fs       fs.FS
		path     string
	}{{false, o.FS, o.Path}, {true, nil, injected}} {
		calibration := filepath.Join(o.Dir, fmt.Sprintf("calibration-%t", m.injected))
		if _, err := llmrun.Calibrate(ctx, m.path, o.Text[:half], llmrun.CalibrateOptions{FS: m.fs, To: calibration, Threads: o.Threads}); err != nil {
			return nil, err
		}
		report()
		var floats float64
		for _, way := range w8a8Ways {
			row := W8A8Row{Injected: m.injected, How: way.how}
			options := llmrun.Options{FS: m.fs, Threads: o.Threads, Memory: llmrun.MemoryOptions{KV: "f32"}}
			if way.w8a8 != nil {
				w := *way.w8a8
				w.Calibration = calibration
				options.Lab.W8A8 = &w
			}
			scored, err := row.measure(ctx, m.path, options, o.Text[half:], o.Context)
			if err != nil {
				return nil, err
			}
			if floats == 0 {
				floats = row.PPL
			}
			row.Change, r.Scored = row.PPL/floats-1, scored
			r.Rows = append(r.Rows, row)
			report()
		}
	}
	return r, nil
}

// measure computes the perplexity of a text, and returns the number of scored tokens.
func (r *W8A8Row) measure(ctx context.Context, path string, o llmrun.Options, text string, window int) (scored int, err error) {
	engine, err := llmrun.OpenContext(ctx, path, o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	ids, err := engine.Tokenizer().Encode(text, llmrun.EncodeOptions{})
	if err != nil {
		return 0, err
	}
	p, err := engine.Perplexity(ctx, ids, llmrun.PerplexityOptions{Context: window})
	if err != nil {
		return 0, err
	}
	if r.PPL = p.PPL; o.Lab.W8A8 != nil && !o.Lab.W8A8.NoOutlierPath {
		use := engine.OutlierUse()
		r.Use = &use
	}
	return p.Scored, nil
}

// WriteTable writes the report in Markdown.
func (r *W8A8Report) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "| model | matmuls | perplexity | change from float32 | rows with outliers | hot columns in memory, of all | hot uses | fetched from flash |\n|---|---|---|---|---|---|---|---|\n")
	for _, row := range r.Rows {
		name := "original"
		if row.Injected {
			name = fmt.Sprintf("%d channels of each norm x %g", r.Channels, r.Factor)
		}
		fmt.Fprintf(w, "| %s | %s | %.3f | %+.2f %% |", name, row.How, row.PPL, 100*row.Change)
		if u := row.Use; u != nil {
			fmt.Fprintf(w, " %.1f %% | %.2f of %.1f MB | %d | %d, %.1f MB |\n",
				100*float64(u.Marked)/float64(max(1, u.Tokens)), float64(u.Resident)/1e6, float64(u.All)/1e6, u.Hot, u.Fetched, float64(u.Read)/1e6)
		} else {
			fmt.Fprintf(w, " | | | |\n")
		}
	}
	fmt.Fprintf(w, "\n%d tokens scored; the text before them is the calibration text.\n", r.Scored)
}
