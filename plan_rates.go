package llmrun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// Rates are the measured speeds of a machine.
type Rates struct {
	Measured time.Time `json:"measured"`
	Weights  string    `json:"weights"`   // weight type of the measurement
	Threads  int       `json:"threads"`   // number of worker threads
	FlashGBs float64   `json:"flash_gbs"` // reads that bypass the page cache
	// StreamCoreGBs is how much is streamed with a second of processor time, by system calls, copies, checksums and waking
	// threads; 0 where the system does not tell.
	StreamCoreGBs float64 `json:"stream_core_gbs,omitempty"`
	DecodeGBs     float64 `json:"decode_gbs"`   // weights, during decode
	PrefillGops   float64 `json:"prefill_gops"` // integer operations, during prefill
	// AttendGBs is the speed at which a decoded token attends to keys and values in memory, and
	// AttendChunkGBs that of each token of a prefill chunk. They depend on the model's heads and
	// on the format of keys and values.
	AttendGBs      float64 `json:"attend_gbs,omitempty"`
	AttendChunkGBs float64 `json:"attend_chunk_gbs,omitempty"`
	// ConvertGBs is the speed at which all threads together convert streamed weights; 0 if they
	// are used as they are stored.
	ConvertGBs float64 `json:"convert_gbs,omitempty"`
	// RoundSeconds is what a round of scattered reads takes besides their transfer.
	RoundSeconds float64 `json:"round_seconds,omitempty"`
	// ExpertReuse and PromptReuse are what runs of the model saw, see PlanRates, and ExpertUses and PromptUses are how many uses of
	// experts they are known from.
	ExpertReuse float64 `json:"expert_reuse,omitempty"`
	ExpertUses  int64   `json:"expert_uses,omitempty"`
	PromptReuse float64 `json:"prompt_reuse,omitempty"`
	PromptUses  int64   `json:"prompt_uses,omitempty"`
	// Guesses is what runs of the model saw of a drafter's guesses.
	Guesses *GuessCounts `json:"guesses,omitempty"`
	// Lost is the part of the processor time that other programs took from the measurement, and Starts is
	// how many starts have measured.
	Lost   float64 `json:"lost,omitempty"`
	Starts int     `json:"starts,omitempty"`
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
	return tiering.Rates{
		ReadGBs: r.FlashGBs, ReadWorkGBs: r.StreamCoreGBs * float64(min(r.Threads, runtime.NumCPU())), ReadCoreGBs: r.StreamCoreGBs, MemGBs: decodeFraction * r.DecodeGBs, PrefillGops: prefillFraction * r.PrefillGops,
		AttendGBs: r.AttendGBs, AttendChunkGBs: r.AttendChunkGBs, ConvertGBs: r.ConvertGBs,
		RoundSeconds: r.RoundSeconds, ExpertReuse: r.ExpertReuse, PromptReuse: r.PromptReuse,
	}
}

const (
	ratesFile = "rates.json" // in the cache directory
	maxRates  = 1 << 20      // largest size of the file
	// mostRates is how many measurements the file keeps, the latest ones.
	mostRates = 256
)

// How measurements are made. Tests of plans, each of which measures the disk of another directory, shorten them.
var (
	flashTime    = 300 * time.Millisecond // of the flash measurement
	roundTime    = 100 * time.Millisecond // of the measurement of scattered reads
	computeRates = rates.Compute
)

// rateMeasurer returns the speeds of a machine from the cache file, or measures them.
type rateMeasurer struct {
	fsys       vfs.FS    // file system of the model
	dir        string    // directory of the cache file; "" = no cache file
	flashReads string    // direct or mmap
	disk       DiskSpeed // that fsys simulates
	threads    int
	memory     int64         // available memory, of which a measurement takes at most half; 0 = no limit
	weights    int64         // bytes of weights that a token is multiplied with
	matmul     rates.Matmul  // how it is multiplied with most of them
	remeasure  bool          // ignore the cache file
	retry      time.Duration // disturbed measurements are made again after it; 0 = never
	// budget grants the memory of measurements; nil grants any. What has no room is not
	// measured.
	budget *tiering.Budget

	// ran returns for how long threads have run; nil = tiering.ProcessorTime.
	ran func() time.Duration
	// compute measures matmuls with that many bytes of weights; nil = computeRates.
	compute func(of rates.Matmul, threads int, bytes int64) (decodeGBs, prefillGops float64, err error)
}

// of makes m measure the matmuls of a model.
func (m *rateMeasurer) of(a *admission) { m.weights, m.matmul = a.shape.TokenBytes(), a.matmul }

// rates returns the rates for the model of m.of.
func (m *rateMeasurer) rates(ctx context.Context, f *modelfile.Files, piece int64) (r Rates, err error) {
	known := m.load()
	source := f.Source.Files()[0]
	wanted := rates.WeightBytes(m.weights)
	// With less memory, fewer weights are measured, which is less representative. Such a measurement
	// serves only calls that have as little.
	sample := min(wanted, powerOfTwo(m.room(rates.ComputeRoom)))
	for _, bytes := range []int64{wanted, sample} {
		key := m.key(bytes, source)
		if r, ok := m.saved(known, func(r *Rates) bool { return r.computes() && m.reads(r) }, key+m.diskKey()); ok {
			return r, nil
		}
		if r, ok := m.saved(known, (*Rates).computes, key); ok { // the speed of a simulated disk is missing, or the processor time of reads
			err = m.flash(source, piece, &r)
			return m.keep(known, key+m.diskKey(), r, err)
		}
	}
	r, err = m.measure(ctx, source, sample, piece)
	return m.keep(known, m.key(sample, source)+m.diskKey(), r, err)
}

// saved returns the first saved measurement under keys that has what measures asks for. It returns none
// if the caller wants to measure again, or if it was disturbed.
func (m *rateMeasurer) saved(known map[string]Rates, measures func(*Rates) bool, keys ...string) (r Rates, ok bool) {
	if m.remeasure {
		return Rates{}, false
	}
	for _, key := range keys {
		if r, ok = known[key]; ok && measures(&r) && !m.mayRetry(&r) {
			return r, true
		}
	}
	return Rates{}, false
}

// key names a measurement with that many bytes of weights, and of the disk of a file.
func (m *rateMeasurer) key(bytes int64, source string) string {
	folder, _ := vfs.Split(source)
	in := "float32"
	if m.matmul.Integers {
		in = "integers"
	}
	return fmt.Sprintf("%s, %d MiB of %s in %s, rows of %d, files in %s, %s", m.machineKey(), bytes>>20, m.matmul.Type, in, m.matmul.Cols, folder, m.flashReads)
}

// machineKey names what the speed of computing depends on.
func (m *rateMeasurer) machineKey() string {
	return fmt.Sprintf("%s/%s %s, %d processors, %d threads", runtime.GOOS, runtime.GOARCH, quant.Features(), runtime.NumCPU(), m.threads)
}

// diskKey names the simulated disk; empty without one.
func (m *rateMeasurer) diskKey() string {
	if m.disk == (DiskSpeed{}) {
		return ""
	}
	return fmt.Sprintf(", a simulated disk of %d bytes/s and %v", m.disk.BytesPerSecond, m.disk.Latency)
}

// keep stores a measurement, unless it failed or the memory did not suffice for all of it.
func (m *rateMeasurer) keep(known map[string]Rates, key string, r Rates, err error) (Rates, error) {
	if err != nil {
		return r, err
	}
	if r.FlashGBs == 0 || r.DecodeGBs == 0 {
		if old, measured := known[key]; measured && !m.remeasure {
			return old, nil // there was more memory
		}
		return r, nil
	}
	return m.store(known, key, r)
}

// powerOfTwo rounds an amount of memory down, so that calls with about as much of it find the
// same measurement.
func powerOfTwo(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// measure measures matmuls with that many bytes of weights, and reads of the file source.
func (m *rateMeasurer) measure(ctx context.Context, source string, bytes, piece int64) (r Rates, err error) {
	r = Rates{Measured: timestamp(), Weights: m.matmul.Type.String(), Threads: m.threads}
	load := m.watchLoad()
	compute := m.compute
	if compute == nil {
		compute = func(of rates.Matmul, threads int, bytes int64) (float64, float64, error) {
			return computeRates(m.ledger(), of, threads, bytes)
		}
	}
	r.DecodeGBs, r.PrefillGops, err = compute(m.matmul, m.threads, bytes)
	r.Lost = load() // not of reads, which wait
	if err != nil && !errors.Is(err, tiering.ErrBudget) {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	return r, m.flash(source, piece, &r)
}

// ledger returns the budget of the measurements.
func (m *rateMeasurer) ledger() *tiering.Budget { return cmp.Or(m.budget, tiering.New(0)) }

// room returns the bytes that a measurement may take for its data besides others: half of the
// available memory, and what the budget has left.
func (m *rateMeasurer) room(others int64) int64 {
	room := int64(math.MaxInt64)
	if m.memory > 0 {
		room = m.memory / 2
	}
	if limit := m.ledger().Limit(); limit > 0 {
		room = min(room, limit-m.budget.Usage().Total-others)
	}
	return max(0, room)
}

// flash measures reads of a file, and the processor time that they take. The rates are 0 if the budget has no room for them.
func (m *rateMeasurer) flash(source string, piece int64, r *Rates) (err error) {
	r.FlashGBs, r.StreamCoreGBs, err = m.measureFlash(source, piece)
	if errors.Is(err, tiering.ErrBudget) {
		return nil
	}
	return err
}

// olderOf makes Measured the time of the oldest measurement.
func (r *Rates) olderOf(measured time.Time) {
	if !measured.IsZero() && measured.Before(r.Measured) {
		r.Measured = measured
	}
}

// measureFlash measures reads of a file, past the page cache where the system supports that: their speed, as the median
// of three times, and how much is streamed with a second of processor time.
func (m *rateMeasurer) measureFlash(name string, piece int64) (median, perCore float64, err error) {
	file, err := vfs.OpenDirect(m.fsys, name)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return 0, 0, err
	}
	piece = min(cmp.Or(piece, tiering.DefaultPiece), size)
	var gbs [3]float64
	for i := range gbs {
		if gbs[i], err = rates.Flash(m.ledger(), io.ReaderAt(file), size, int(piece), flashTime/time.Duration(len(gbs))); err != nil {
			return 0, 0, err
		}
	}
	slices.Sort(gbs[:])
	perCore, err = rates.StreamCore(m.ledger(), file, size, int(piece), flashTime/time.Duration(len(gbs)), m.processorTime())
	if m.disk != (DiskSpeed{}) {
		return gbs[2], perCore, err // only pauses of the machine differ from the simulated speed
	}
	return gbs[1], perCore, err
}

// reads reports whether the speeds of reading are measured, as far as the system tells them.
func (m *rateMeasurer) reads(r *Rates) bool {
	return r.FlashGBs > 0 && (r.StreamCoreGBs > 0 || m.processorTime()() == 0)
}

// computes reports whether the speeds of computing are measured.
func (r *Rates) computes() bool { return r.DecodeGBs > 0 && r.PrefillGops > 0 }

// valid reports whether no rate is negative. A rate of 0 is not measured.
func (r *Rates) valid() bool {
	return min(r.FlashGBs, r.DecodeGBs, r.PrefillGops, r.AttendGBs, r.AttendChunkGBs, r.ConvertGBs, r.StreamCoreGBs, r.RoundSeconds, r.ExpertReuse, r.PromptReuse, r.Lost) >= 0
}

// load reads the cache file. It ignores an unreadable file, and measurements that cannot be.
func (m *rateMeasurer) load() map[string]Rates {
	known := map[string]Rates{}
	if m.dir == "" {
		return known
	}
	data, err := vfs.ReadFile(vfs.OS(), vfs.Join(m.dir, ratesFile), maxRates)
	if err != nil || json.Unmarshal(data, &known) != nil || known == nil {
		return map[string]Rates{}
	}
	maps.DeleteFunc(known, func(_ string, r Rates) bool { return !r.valid() })
	return known
}

// save writes the cache file. It ignores missing write permission.
func (m *rateMeasurer) save(known map[string]Rates) error {
	if m.dir == "" {
		return nil
	}
	forgetOldest(known)
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

// forgetOldest removes all but the latest measurements.
func forgetOldest(known map[string]Rates) {
	if len(known) <= mostRates {
		return
	}
	keys := slices.SortedFunc(maps.Keys(known), func(a, b string) int {
		return cmp.Or(known[b].Measured.Compare(known[a].Measured), cmp.Compare(a, b))
	})
	for _, key := range keys[mostRates:] {
		delete(known, key)
	}
}

// timestamp returns the time of a measurement.
func timestamp() time.Time { return time.Now().UTC().Truncate(time.Second) }
