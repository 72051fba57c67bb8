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
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
)

// LoraOptions configure LoraCost.
type LoraOptions struct {
	Path    string // of a GGUF model
	Dir     string // for the adapter
	Rank    int
	Rounds  int // pairs
	Decode  int // tokens per measurement
	Threads int
	Running func(done, total int64) // may be nil
}

// LoraReport is what an adapter beside the weights costs.
type LoraReport struct {
	Model   string        `json:"model"`
	Machine bench.Machine `json:"machine"`
	Rank    int           `json:"rank"`
	Bytes   int64         `json:"adapter_bytes"`
	Cost    Paired        `json:"cost"`
}

// LoraCost decodes with and without a random adapter of 16-bit floats on all matrices of the layers, in turns, in
// two sessions of one engine.
func LoraCost(ctx context.Context, o LoraOptions) (_ *LoraReport, err error) {
	r := &LoraReport{Model: filepath.Base(o.Path), Machine: bench.ThisMachine(), Rank: o.Rank}
	adapter := vfs.Join(o.Dir, "random.gguf")
	if r.Bytes, err = writeRandomAdapter(o.Path, adapter, o.Rank); err != nil {
		return nil, err
	}
	engine, err := llmrun.OpenContext(ctx, o.Path, llmrun.Options{
		Threads: o.Threads, Context: overheadContext, Adapters: []string{"random=" + adapter},
		Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, Pin: "anon"}, Drafts: llmrun.DraftOptions{Drafter: llmrun.DraftOff},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	var models [2]*overheadModel
	for i, use := range [][]string{{"random"}, nil} {
		s, err := engine.NewSession()
		if err == nil {
			err = s.UseAdapters(use...)
		}
		if err != nil {
			return nil, err
		}
		models[i] = &overheadModel{engine: engine, session: s}
	}
	for round := range o.Rounds {
		took, err := inTurns(round, func(i int) (time.Duration, error) { return models[i].decode(ctx, o.Decode) })
		if err != nil {
			return nil, err
		}
		r.Cost.add(took)
		if o.Running != nil {
			o.Running(int64(round)+1, int64(o.Rounds))
		}
	}
	r.Cost.summarize()
	return r, nil
}

// writeRandomAdapter writes an adapter for all matrices of a GGUF model's layers, and returns its bytes.
func writeRandomAdapter(model, to string, rank int) (bytes int64, err error) {
	f, err := modelfile.Open(vfs.OS(), model)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	random := rand.New(rand.NewPCG(1, uint64(rank)))
	var tensors []gguf.TensorData
	add := func(name string, rows, cols int) {
		values := make([]float32, rows*cols)
		for i := range values {
			values[i] = 0.01 * float32(random.NormFloat64())
		}
		data := make([]byte, 2*len(values))
		quant.RoundF16(data, values)
		tensors = append(tensors, gguf.TensorData{Name: name, Type: quant.F16, Shape: []int{rows, cols}, Data: data})
		bytes += int64(len(data))
	}
	for _, t := range f.Source.Tensors() {
		if strings.HasPrefix(t.Name, "blk.") && len(t.Shape) == 2 {
			add(t.Name+".lora_a", rank, t.Cols())
			add(t.Name+".lora_b", t.Rows(), rank)
		}
	}
	if len(tensors) == 0 {
		return 0, fmt.Errorf("%s: no matrix of a GGUF model's layers: give a GGUF file", model)
	}
	keys := []gguf.KV{{Key: "general.type", Value: "adapter"}, {Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(rank)}}
	return bytes, gguf.Write(vfs.OS(), to, keys, tensors)
}

// WriteTable writes the report as a table in Markdown.
func (r *LoraReport) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "| model | adapter | without | with | cost | half between |\n|%s\n| %s | rank %d, %.1f MiB | ", strings.Repeat("---|", 6), r.Model, r.Rank, float64(r.Bytes)/(1<<20))
	r.Cost.write(w)
	fmt.Fprintf(w, "\n\nMilliseconds per token, medians of %d pairs. The cost is the median of the ratios of consecutive measurements; half of the ratios are in the range of the column after.\n", r.Cost.Pairs)
}
