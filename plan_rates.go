package llmrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"time"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// Rates are what a machine was measured to reach.
type Rates struct {
	Measured    time.Time `json:"measured"`
	Weights     string    `json:"weights"`      // type of weights for which the rest holds
	Threads     int       `json:"threads"`      // that computed
	FlashGBs    float64   `json:"flash_gbs"`    // read past the page cache
	DecodeGBs   float64   `json:"decode_gbs"`   // weights multiplied with one token
	PrefillGops float64   `json:"prefill_gops"` // operations, with many tokens
}

// What a whole model is taken to reach of the rates of its matrix products alone;
// the rest goes to attention, norms and the meetings of threads. How far the
// predictions are off is in docs/results/budget.md.
const (
	decodeFraction  = 0.9
	prefillFraction = 0.97
)

// forPlan returns the rates that a whole model reaches.
func (r *Rates) forPlan() tiering.Rates {
	return tiering.Rates{ReadGBs: r.FlashGBs, MemGBs: decodeFraction * r.DecodeGBs, PrefillGops: prefillFraction * r.PrefillGops}
}

const (
	ratesFile = "rates.json" // in the cache directory
	maxRates  = 1 << 20      // bytes of it
	// flashTime is how long reading is measured.
	flashTime = 300 * time.Millisecond
)

// rateMeasurer knows what a machine reaches, from a file or by measuring.
type rateMeasurer struct {
	fsys      vfs.FS // of the model
	dir       string // of the file; "" = there is none
	threads   int
	memory    int64 // that measuring may take half of; 0 = any
	weights   int64 // bytes that a token is multiplied with
	remeasure bool  // measure even what the file has

	// compute measures products with so many bytes of weights; nil = rates.Compute.
	compute func(t quant.Type, threads int, bytes int64) (decodeGBs, prefillGops float64, err error)
}

// rates returns the rates for a model.
func (m *rateMeasurer) rates(ctx context.Context, f *modelfile.Files, piece int64) (Rates, error) {
	known := m.load()
	typ := mainType(f)
	source := f.Source.Files()[0]
	folder, _ := vfs.Split(source)
	bytes := rates.WeightBytes(m.weights)
	key := fmt.Sprintf("%s/%s %s, %d processors, %d threads, %d MiB of %s, files in %s",
		runtime.GOOS, runtime.GOARCH, quant.Features(), runtime.NumCPU(), m.threads, bytes>>20, typ, folder)
	if r, ok := known[key]; ok && !m.remeasure {
		return r, nil
	}
	r := Rates{Measured: time.Now().UTC().Truncate(time.Second), Weights: typ.String(), Threads: m.threads}
	var err error
	compute := m.compute
	if compute == nil {
		compute = rates.Compute
	}
	limited := m.memory > 0 && m.memory/2 < bytes
	if limited {
		bytes = m.memory / 2
	}
	if r.DecodeGBs, r.PrefillGops, err = compute(typ, m.threads, bytes); err != nil {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if r.FlashGBs, err = measureFlash(m.fsys, source, piece); err != nil {
		return r, err
	}
	if limited {
		return r, nil // a measurement in so little memory is no measure for others
	}
	known[key] = r
	return r, m.save(known)
}

// mainType returns the type that most of a model's weights have.
func mainType(f *modelfile.Files) quant.Type {
	bytes := map[quant.Type]int64{}
	most := quant.F32
	for _, t := range f.Source.Tensors() {
		bytes[t.Type] += t.Size
		if bytes[t.Type] > bytes[most] {
			most = t.Type
		}
	}
	return most
}

// measureFlash reads a file past the page cache, where that can be done.
func measureFlash(fsys vfs.FS, name string, piece int64) (gbs float64, err error) {
	if piece == 0 {
		piece = tiering.DefaultPiece
	}
	file, err := vfs.OpenDirect(fsys, name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return 0, err
	}
	return rates.Flash(io.ReaderAt(file), size, int(min(piece, size)), flashTime)
}

// load reads what was measured before. A file that cannot be read is no loss.
func (m *rateMeasurer) load() map[string]Rates {
	known := map[string]Rates{}
	if m.dir == "" {
		return known
	}
	data, err := vfs.ReadFile(vfs.OS(), vfs.Join(m.dir, ratesFile), maxRates)
	if err != nil || json.Unmarshal(data, &known) != nil || known == nil {
		return map[string]Rates{}
	}
	return known
}

// save keeps what was measured. Where nothing may be written, it will be measured
// again.
func (m *rateMeasurer) save(known map[string]Rates) error {
	if m.dir == "" {
		return nil
	}
	data, err := json.MarshalIndent(known, "", "  ")
	if err != nil {
		return err
	}
	if err = vfs.OS().MkdirAll(m.dir); err == nil {
		err = vfs.WriteFile(vfs.OS(), vfs.Join(m.dir, ratesFile), append(data, '\n'))
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
