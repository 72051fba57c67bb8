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

// Rates are the measured speeds of a machine.
type Rates struct {
	Measured    time.Time `json:"measured"`
	Weights     string    `json:"weights"`      // weight type of the measurement
	Threads     int       `json:"threads"`      // number of worker threads
	FlashGBs    float64   `json:"flash_gbs"`    // reads that bypass the page cache
	DecodeGBs   float64   `json:"decode_gbs"`   // weights, during decode
	PrefillGops float64   `json:"prefill_gops"` // integer operations, during prefill
}

// A whole model reaches these fractions of the speed of its matmuls; attention, norms and
// thread synchronization take the rest. docs/results/budget.md compares predictions with
// measurements.
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
	maxRates  = 1 << 20      // largest size of the file
	// flashTime is the duration of the flash measurement.
	flashTime = 300 * time.Millisecond
)

// rateMeasurer returns the speeds of a machine from the cache file, or measures them.
type rateMeasurer struct {
	fsys      vfs.FS // file system of the model
	dir       string // directory of the cache file; "" = no cache file
	threads   int
	memory    int64 // available memory, of which a measurement takes at most half; 0 = no limit
	weights   int64 // bytes of weights that a token is multiplied with
	remeasure bool  // ignore the cache file

	// compute measures matmuls with that many bytes of weights; nil = rates.Compute.
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
	limited := m.memory > 0 && m.memory/2 < bytes
	if limited {
		bytes = m.memory / 2
	}
	r, err := m.measure(ctx, source, typ, bytes, piece)
	if err != nil || limited {
		return r, err // a measurement with fewer weights is not representative
	}
	known[key] = r
	return r, m.save(known)
}

// measure measures matmuls with that many bytes of weights, and reads of the file source.
func (m *rateMeasurer) measure(ctx context.Context, source string, typ quant.Type, bytes, piece int64) (r Rates, err error) {
	r = Rates{Measured: time.Now().UTC().Truncate(time.Second), Weights: typ.String(), Threads: m.threads}
	compute := m.compute
	if compute == nil {
		compute = rates.Compute
	}
	if r.DecodeGBs, r.PrefillGops, err = compute(typ, m.threads, bytes); err != nil {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	r.FlashGBs, err = measureFlash(m.fsys, source, piece)
	return r, err
}

// mainType returns the type of most of a model's weights, in bytes.
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

// measureFlash measures reads of a file, past the page cache where the system supports that.
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

// load reads the cache file. It ignores an unreadable file.
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

// save writes the cache file. It ignores missing write permission.
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
