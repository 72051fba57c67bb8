package measure

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/internal/plot"
	"github.com/llmrun/llmrun/lab/papers"
	"github.com/llmrun/llmrun/lab/schedule"
	"github.com/llmrun/llmrun/lab/sim"
)

// PapersReport compares measurements that papers published with simulations of the same phones.
// It holds no measurement of this machine.
type PapersReport struct {
	Tables      []papers.Table      `json:"tables"`
	Predictions []papers.Prediction `json:"predictions"`
	Chips       []papers.ChipSpeeds `json:"chips"`
	Curves      []papers.Curve      `json:"curves"`
	Constants   []sim.Constant      `json:"constants"`
}

// ComparePapers runs the simulations.
func ComparePapers(ctx context.Context) (*PapersReport, error) {
	lab := &papers.Lab{}
	r := &PapersReport{Constants: sim.Constants(sim.SoCs()[0])}
	steps := []func() (err error){
		func() (err error) { r.Tables, err = lab.HeteroLLM(); return err },
		func() (err error) { r.Tables = append(r.Tables, papers.MllmNPU()...); return nil },
		func() (err error) { r.Predictions, err = lab.Predictions(); return err },
		func() (err error) { r.Chips, err = lab.Chips(); return err },
		func() (err error) { r.Curves, err = lab.Lengths(); return err },
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Reached counts the figures that the simulation reaches, and all figures.
func (r *PapersReport) Reached() (held, all int) {
	for _, t := range r.Tables {
		for _, f := range t.Figures {
			all++
			if f.Holds() {
				held++
			}
		}
	}
	return held, all
}

// WriteTables writes the report in Markdown.
func (r *PapersReport) WriteTables(w io.Writer) {
	held, all := r.Reached()
	fmt.Fprintf(w, "Simulated phones compared with measurements that papers published: the simulation reaches %d of %d figures. A ratio is reached within 15 %% of its gain,\n", held, all)
	fmt.Fprintf(w, "a number with a unit within 15 %%, a range anywhere inside it. \"fitted\": a constant of the simulator was fitted to this figure.\n")
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n### %s\n\n| what | where | paper | simulated | reached |\n|---|---|---|---|---|\n", t.Title)
		for _, f := range t.Figures {
			reached := yesNo(f.Holds())
			if f.Fitted {
				reached += ", fitted"
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", f.What, f.Source, published(&f), number(f.Ours, f.Unit), reached)
		}
	}
	r.writePredictions(w)
	r.writeChips(w)
	r.writePlacement(w)
	r.WriteConstants(w)
}

func published(f *papers.Figure) string {
	if f.Paper == 0 {
		return strings.TrimSpace(fmt.Sprintf("%g to %g %s", f.Low, f.High, f.Unit))
	}
	return number(f.Paper, f.Unit)
}

func number(v float64, unit string) string {
	switch {
	case unit == "":
		return fmt.Sprintf("%.2fx", v)
	case v >= 100:
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

func (r *PapersReport) writePredictions(w io.Writer) {
	fmt.Fprintf(w, "\n### Predicted against measured times\n\nMean and largest error of the profiler's prediction mode over lengths and halves of each model's matmuls; prefill of 525 tokens\nwith splits planned from measured and from predicted times; and the solver's expectation of the former as a part of its time.\n\n")
	fmt.Fprintf(w, "| model | GPU, fixed rate | NPU, tree | measured | predicted | expected |\n|---|---|---|---|---|---|\n")
	for _, p := range r.Predictions {
		fmt.Fprintf(w, "| %s | %.1f %%, %.1f %% | %.1f %%, %.1f %% | %.0f ms | %.0f ms | %.0f %% |\n", p.Model,
			100*p.GPU, 100*p.GPUMax, 100*p.NPU, 100*p.NPUMax, 1e3*p.Measured, 1e3*p.Predicted, 100*p.Planned)
	}
}

func (r *PapersReport) writeChips(w io.Writer) {
	fmt.Fprintf(w, "\n### Llama-8B on all chips, tokens per second\n\nPapers published only the figures of the 8 Gen 3; other chips are the 8 Gen 3 with the numbers that are known of them. \"half\": a split may keep the GPU\nbusy for half of the time, which leaves the rest to other programs.\n\n")
	fmt.Fprintf(w, "| chip | prefill of 256: GPU | layer-level | tensor-level | half | decoding: GPU | tensor-level |\n|---|---|---|---|---|---|---|\n")
	for _, c := range r.Chips {
		fmt.Fprintf(w, "| %s | %.1f | %.1f | %.1f | %.1f | %.2f | %.2f |\n", c.SoC, c.Prefill[0], c.Prefill[1], c.Prefill[2], c.HalfGPU, c.Decode[0], c.Decode[2])
	}
}

// writePlacement shows which graphs fit in an NPU with a small address space.
func (r *PapersReport) writePlacement(w io.Writer) {
	fmt.Fprintf(w, "\n### Graphs that fit an NPU's address space\n\nLayers of each graph in 8 bits; graphs with the most arithmetic per byte come first.\n\n| model | space | placed |\n|---|---|---|\n")
	for _, m := range []papers.Model{papers.Qwen18, papers.Llama7B} {
		graphs := papers.MllmGraphs(m)
		graphs = slices.DeleteFunc(graphs, func(g schedule.Graph) bool { return g.Weights == 0 })
		for _, space := range []int64{2 << 30, 4 << 30} {
			var placed []string
			for i, n := range schedule.Place(graphs, m.Layers, space) {
				placed = append(placed, fmt.Sprintf("%s %d of %d", graphs[i].Name, n, m.Layers))
			}
			fmt.Fprintf(w, "| %s | %d GiB | %s |\n", m.Name, space>>30, strings.Join(placed, ", "))
		}
	}
}

// WriteConstants lists the constants of the simulated phone.
func (r *PapersReport) WriteConstants(w io.Writer) {
	fitted := 0
	for _, c := range r.Constants {
		if c.Fitted {
			fitted++
		}
	}
	fmt.Fprintf(w, "\n### Constants of the simulated %s\n\n%d numbers, %d of them fitted to figures of Llama-8B.\n\n", r.Constants[0].SoC, len(r.Constants), fitted)
	writeConstants(w, r.Constants)
	fmt.Fprintf(w, "\n### Constants of the figures of mllm-NPU\n\nThe scheduler uses these numbers directly; none is fitted.\n\n")
	writeConstants(w, papers.MllmConstants())
}

func writeConstants(w io.Writer, list []sim.Constant) {
	fmt.Fprintf(w, "| constant | value | source |\n|---|---|---|\n")
	for _, c := range list {
		source := c.Source
		if c.Fitted {
			source = "**fitted** " + source
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", c.Name, strings.TrimSpace(fmt.Sprintf("%.6g %s", c.Value, c.Unit)), source)
	}
}

// WriteLengths draws the latency of prefill over its length.
func (r *PapersReport) WriteLengths(w io.Writer) error {
	c := plot.Chart{Title: "Llama-8B on a simulated 8 Gen 3", X: "tokens of the prompt", Y: "seconds until the first token"}
	for _, curve := range r.Curves {
		line := plot.Line{Name: curve.Method.String()}
		for i, n := range curve.Lengths {
			line.Points = append(line.Points, plot.Point{X: float64(n), Y: curve.Seconds[i]})
		}
		c.Lines = append(c.Lines, line)
	}
	return c.Write(w)
}

// WriteRatios draws the simulated over the published ratios.
func (r *PapersReport) WriteRatios(w io.Writer) error {
	c := plot.Chart{Title: "Gains: published and simulated", X: "published, times", Y: "simulated, times"}
	high := 1.0
	for _, t := range r.Tables {
		line := plot.Line{Name: strings.TrimPrefix(t.Title, "HeteroLLM: "), Dots: true}
		for _, f := range t.Figures {
			if f.Unit == "" && f.Paper > 0 {
				line.Points = append(line.Points, plot.Point{X: f.Paper, Y: f.Ours})
				high = max(high, f.Paper)
			}
		}
		if len(line.Points) > 0 {
			line.Name, _, _ = strings.Cut(line.Name, ",")
			c.Lines = append(c.Lines, line)
		}
	}
	c.Lines = append(c.Lines, plot.Line{Name: "equal", Dashed: true, Points: []plot.Point{{X: 1, Y: 1}, {X: high, Y: high}}})
	return c.Write(w)
}
