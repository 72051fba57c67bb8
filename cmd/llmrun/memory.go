package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// addRAM declares the flags of memory, for commands that generate.
func (m *modelFlags) addRAM(f *cli.FlagSet) {
	addRAM(f, &m.ram, "the available memory")
	f.Setting("ram").Unless("devices").Named("memory budget")
	addKVRAM(f, &m.kvRAM)
	f.Choice(&m.pin, "pin", "HOW", "how weights of a pack stay in memory: anon, a copy, which is the fastest; file, a mapping of the file, whose memory the system can take back; or auto, which is file on Android and anon elsewhere. With auto, the first token comes from a mapping if the page cache holds the file", "anon", "file", "auto")
	m.addFlash(f)
	m.addDisk(f)
	f.Toggle(&m.pressure, "pressure", "release memory while the system is short of it, and take it back afterwards; on Linux and Android")
}

// addFlash declares --flash, for commands that plan memory.
func (m *modelFlags) addFlash(f *cli.FlagSet) {
	f.Choice(&m.flash, "flash", "HOW", "how the model and older keys and values are read while the model computes: direct, past the page cache; mmap, through small mapped windows, which is faster while the page cache has room for the files; or auto, which takes the faster at the start. The answer is the same. Default: auto", "auto", "direct", "mmap")
}

// addDisk declares --disk, for commands that read models.
func (m *modelFlags) addDisk(f *cli.FlagSet) {
	f.Value("disk", "SPEED", "for experiments: read the model at the speed of a slower disk, such as 1GB/s, or 800MB/s,100us to add a latency to each read", func(text string) (err error) {
		if m.disk, err = llmrun.ParseDiskSpeed(text); err != nil {
			return fmt.Errorf("must be a speed such as 1GB/s, or 800MB/s,100us, not %q", text)
		}
		return nil
	})
}

// ramFlag is the memory limit of --ram.
type ramFlag struct {
	bytes int64 // as in llmrun.MemoryOptions
	// percent is the percentage as typed, "" for a size; available is the memory it refers to.
	percent   string
	available int64
}

// addRAM declares --ram, for commands that plan memory. fallback describes the limit without it.
func addRAM(f *cli.FlagSet, ram *ramFlag, fallback string) {
	f.Value("ram", "SIZE", "memory limit of the whole program: such as 1.5GiB, 800MB, 50% (of the memory that is available on this machine, not of the model), or all for no limit; default: "+fallback+". Weights that do not fit are read from flash during each pass, and the answer is the same", func(text string) (err error) {
		*ram = ramFlag{bytes: llmrun.NoLimit}
		if text == "all" {
			return nil
		}
		if ram.bytes, err = llmrun.ParseMemory(text); err != nil {
			return fmt.Errorf("must be a size such as 1.5GiB or 800MB, a percentage such as 50%%, or all, not %s", quoteSize(text))
		}
		if strings.HasSuffix(strings.TrimSpace(text), "%") {
			ram.percent, ram.available = strings.TrimSpace(text), llmrun.AvailableMemory()
		}
		return nil
	})
}

// quoteSize quotes a text that is no size, and says so if only the unit is missing.
func quoteSize(text string) string {
	if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && x > 0 {
		return fmt.Sprintf("%q, which has no unit", text)
	}
	return strconv.Quote(text)
}

// percentOf describes what the percentage refers to; "" without one.
func (r *ramFlag) percentOf() string {
	if r.percent == "" {
		return ""
	}
	return fmt.Sprintf("%s of the %s that are available on this machine, not of the model", r.percent, cli.FormatBytes(r.available))
}

// addKVRAM declares --kv-ram, for commands that plan memory.
func addKVRAM(f *cli.FlagSet, ram *int64) {
	f.Value("kv-ram", "SIZE", "the part of --ram that keys and values of the conversation may use, such as 64MiB, or 10% (of the memory that is available on this machine); older ones go to a file in the cache directory and are read back when attention needs them, and the answer is the same. Default: the memory that the weights leave", func(text string) (err error) {
		if *ram, err = llmrun.ParseMemory(text); err != nil || *ram < 1 {
			return fmt.Errorf("must be a size such as 64MiB or 10%%, not %s", quoteSize(text))
		}
		return nil
	})
}

// A memoryStats holds the statistics of memory and flash that --stats prints. Scripts depend
// on its names.
type memoryStats struct {
	BudgetBytes int64 `json:"budget_bytes"` // 0 = unlimited
	// LedgerBytes is the most that was reserved for all purposes together, and VMHWMBytes the
	// most that the process held as the kernel counts it; 0 where the system does not tell.
	LedgerBytes int64            `json:"ledger_bytes"`
	VMHWMBytes  int64            `json:"vm_hwm_bytes"`
	PeakBytes   map[string]int64 `json:"peak_bytes"` // by purpose
	// Per decoded token.
	ReadBytesPerToken int64 `json:"read_bytes_per_token"`
	// WrittenBytesPerToken counts spilled keys and values while decoding, and WrittenBytes all
	// that the generation wrote to flash: spilled and saved keys and values.
	WrittenBytesPerToken int64 `json:"written_bytes_per_token"`
	WrittenBytes         int64 `json:"written_bytes"`
	// CacheWrites are the bytes of the day, by all processes; nil without a limit.
	CacheWrites *llmrun.CacheWrites `json:"cache_writes,omitempty"`
	// Waits over the whole generation: for weights, for embedding rows, and for keys and values
	// that had to be written before a token had room.
	StallMS          float64      `json:"stall_ms"`
	Stalls           int          `json:"stalls"`
	EmbeddingStallMS float64      `json:"embedding_stall_ms"`
	SpillStallMS     float64      `json:"spill_stall_ms"`
	ReadGBs          float64      `json:"read_gb_s"`   // while decoding
	FlashReads       string       `json:"flash_reads"` // direct or mmap
	Experts          *expertStats `json:"experts,omitempty"`
	KV               kvStats      `json:"kv"`
	// Classes counts all transfers with flash by urgency, over the whole generation.
	Classes   classStats `json:"classes"`
	Predicted speeds     `json:"predicted"`
	Measured  speeds     `json:"measured"`
	// Rates are the measurements of the machine on which the prediction rests.
	Rates *llmrun.Rates `json:"rates,omitempty"`
	// GPU is set with --device gpu.
	GPU *llmrun.Placement `json:"gpu,omitempty"`
	// Split is set with a --device such as cpu+gpu.
	Split []llmrun.SplitMatmul `json:"divided,omitempty"`
}

// speeds are in tokens per second.
type speeds struct {
	Prefill float64 `json:"prefill_tok_per_s"`
	Decode  float64 `json:"decode_tok_per_s"`
}

// expertStats are the hits and misses of the expert cache while decoding.
type expertStats struct {
	Slots   int     `json:"slots"` // experts that fit in the cache
	Hits    int64   `json:"hits"`
	Misses  int64   `json:"misses"`
	HitRate float64 `json:"hit_rate"`
	// Per decoded token.
	ReadBytesPerToken int64 `json:"read_bytes_per_token"`
}

func newExpertStats(u llmrun.ExpertUse, tokens int) *expertStats {
	if u.Slots == 0 {
		return nil
	}
	return &expertStats{u.Slots, u.Hits, u.Used - u.Hits, u.HitRate(), u.Bytes / int64(max(1, tokens))}
}

// decodedTokens returns the number of decode passes: one for each generated token but the
// first, which prefill produces, and one for the end-of-text token.
func decodedTokens(stats llmrun.Stats) int {
	n := stats.GeneratedTokens - 1
	if stats.StopReason == llmrun.StopEOS {
		n++
	}
	return n
}

func newMemoryStats(engine *llmrun.Engine, stats llmrun.Stats) *memoryStats {
	report := engine.Memory()
	m := &memoryStats{
		GPU: engine.Placement(), Split: engine.SplitMatmuls(),
		BudgetBytes: report.Budget, LedgerBytes: report.Ledger, VMHWMBytes: report.Process, PeakBytes: report.Peak,
		StallMS: milliseconds(stats.PrefillFlash.Stalled + stats.DecodeFlash.Stalled),
		Stalls:  stats.PrefillFlash.Stalls + stats.DecodeFlash.Stalls,
		KV:      newKVStats(stats), FlashReads: report.FlashReads,
		EmbeddingStallMS: milliseconds(stats.PrefillFlash.EmbeddingStalled + stats.DecodeFlash.EmbeddingStalled),
		Predicted:        speeds{report.Plan.PredictedPrefill, report.Plan.PredictedDecode},
		Measured:         speeds{finite(stats.PrefillTokPerS()), finite(stats.DecodeTokPerS())},
		Rates:            report.Rates,
	}
	m.Classes = newClassStats(stats.PrefillFlash.Classes, stats.DecodeFlash.Classes)
	m.WrittenBytesPerToken, m.SpillStallMS = m.KV.WrittenPerToken, m.KV.SpillStallMS
	m.WrittenBytes, m.CacheWrites = m.KV.Written+m.KV.Saved, engine.CacheWrites()
	if n := decodedTokens(stats); n > 0 {
		m.ReadBytesPerToken = stats.DecodeFlash.Bytes / int64(n)
		m.Experts = newExpertStats(stats.DecodeFlash.Experts, n)
		m.ReadGBs = finite(float64(stats.DecodeFlash.Bytes) / 1e9 / stats.Decode.Seconds())
	}
	return m
}

// print shows the statistics to a person.
func (m *memoryStats) print(w io.Writer) {
	budget := "no limit"
	if m.BudgetBytes > 0 {
		budget = cli.FormatBytes(m.BudgetBytes)
	}
	var parts []string
	for purpose, n := range m.PeakBytes {
		parts = append(parts, fmt.Sprintf("%s %s", purpose, cli.FormatBytes(n)))
	}
	slices.Sort(parts)
	fmt.Fprintf(w, "memory: %s; at most %s\n", budget, strings.Join(parts, ", "))
	if m.ReadBytesPerToken > 0 || m.Stalls > 0 {
		fmt.Fprintf(w, "flash (%s): %s per token, %.2f GB/s; waited %.0f ms in %d stalls\n", m.FlashReads, cli.FormatBytes(m.ReadBytesPerToken), m.ReadGBs, m.StallMS, m.Stalls)
	}
	m.Classes.print(w)
	if x := m.Experts; x != nil {
		fmt.Fprintf(w, "experts: %d in memory; %d hits of %d, %.1f %%; read %s per token\n",
			x.Slots, x.Hits, x.Hits+x.Misses, 100*x.HitRate, cli.FormatBytes(x.ReadBytesPerToken))
	}
	m.KV.print(w)
	if x := m.CacheWrites; x != nil && x.Today > 0 {
		fmt.Fprintf(w, "cache: %s of %s that may be written today are written\n", cli.FormatBytes(x.Today), cli.FormatBytes(x.Limit))
	}
	if m.Predicted.Decode > 0 && m.Rates != nil {
		fmt.Fprintf(w, "predicted at the start of a conversation, with the machine's speed of %s: prompt %.1f tok/s, answer %.2f tok/s; measured: %.1f and %.2f\n",
			m.Rates.Measured.Format("2006-01-02 15:04"), m.Predicted.Prefill, m.Predicted.Decode, m.Measured.Prefill, m.Measured.Decode)
	}
	if p := m.GPU; p != nil {
		fmt.Fprintf(w, "gpu: the last %d of %d layers and the output matrix use %s of the %s of %s; %s of weights stay in the machine's memory\n", p.Layers, p.ModelLayers, cli.FormatBytes(p.Held), cli.FormatBytes(p.Memory), p.Device, cli.FormatBytes(p.Host))
	}
	for i := range m.Split {
		printSplitMatmul(w, &m.Split[i])
	}
}

// printSplitMatmul shows how the matmuls of one kind of matrix are split.
func printSplitMatmul(w io.Writer, p *llmrun.SplitMatmul) {
	fmt.Fprintf(w, "split: %s, %d of %d×%d %s: the device computes %.0f %% of the rows of a decode matmul", p.Name, p.Count, p.Rows, p.Cols, p.Type, 100*p.DecodeFraction)
	if p.PrefillFraction != p.DecodeFraction {
		fmt.Fprintf(w, ", and %.0f %% with %d tokens or more", 100*p.PrefillFraction, p.PrefillTokens)
	}
	for _, s := range []struct {
		phase string
		steps llmrun.SplitSteps
	}{{"decode", p.Decode}, {"prefill", p.Prefill}} {
		if n := time.Duration(s.steps.Steps); n > 0 {
			fmt.Fprintf(w, "; a %s step took %v, of which %v waiting", s.phase, (s.steps.Took / n).Round(time.Microsecond), (s.steps.Waited / n).Round(time.Microsecond))
			if s.steps.Predicted > 0 {
				fmt.Fprintf(w, ", predicted %v", (s.steps.Predicted / n).Round(time.Microsecond))
			}
		}
	}
	fmt.Fprintln(w)
}
