package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// addRAM declares --ram and what goes with it, for commands that generate.
func (m *modelFlags) addRAM(f *cli.FlagSet) {
	addRAM(f, &m.ram)
	addKVRAM(f, &m.kvRAM)
	f.Choice(&m.pin, "pin", "HOW", "how weights of a pack stay in memory: anon, a copy, which is the fastest; file, a mapping of the file, whose memory the system can take back; or auto, which is file on Android and anon elsewhere. With auto, the first token comes from a mapping if the page cache holds the file", "anon", "file", "auto")
	m.addDisk(f)
	f.Toggle(&m.pressure, "pressure", "give memory back while the system is short of it, and take it again when that is over; on Linux and Android")
}

// addDisk declares --disk, for commands that read models.
func (m *modelFlags) addDisk(f *cli.FlagSet) {
	f.Value("disk", "SPEED", "for experiments: read the model as slowly as from another disk, such as 1GB/s, or 800MB/s,100us with a wait for each read", func(text string) (err error) {
		if m.disk, err = llmrun.ParseDiskSpeed(text); err != nil {
			return fmt.Errorf("must be a speed such as 1GB/s, or 800MB/s,100us, not %q", text)
		}
		return nil
	})
}

// ramFlag is a limit of memory as it was asked for.
type ramFlag struct {
	bytes int64 // as llmrun.Options has it
	// percent is what was given, "" if that was a size, and available what it is of.
	percent   string
	available int64
}

// addRAM declares --ram, for commands that divide memory.
func addRAM(f *cli.FlagSet, ram *ramFlag) {
	f.Value("ram", "SIZE", "most memory to use, the program included: such as 1.5GiB, 800MB, 50% (of the memory that is available on this machine, not of the model), or all for no limit; without it, what is available. What does not fit is read from flash while it is used, and the answer is the same", func(text string) (err error) {
		*ram = ramFlag{bytes: llmrun.NoLimit}
		if text == "all" {
			return nil
		}
		if ram.bytes, err = llmrun.ParseMemory(text); err != nil {
			return fmt.Errorf("must be a size such as 1.5GiB or 800MB, a percentage such as 50%%, or all, not %q", text)
		}
		if strings.HasSuffix(strings.TrimSpace(text), "%") {
			ram.percent, ram.available = strings.TrimSpace(text), llmrun.AvailableMemory()
		}
		return nil
	})
}

// percentOf says what a percentage is of; "" if none was given.
func (r *ramFlag) percentOf() string {
	if r.percent == "" {
		return ""
	}
	return fmt.Sprintf("%s of the %s that are available on this machine, not of the model", r.percent, cli.FormatBytes(r.available))
}

// addKVRAM declares --kv-ram, for commands that divide memory.
func addKVRAM(f *cli.FlagSet, ram *int64) {
	f.Value("kv-ram", "SIZE", "of that, the most for keys and values of the conversation, such as 64MiB, or 10% (of the memory that is available on this machine); older ones go to a file in the cache directory and come back when they are needed, and the answer is the same. Without it, what the weights leave", func(text string) (err error) {
		if *ram, err = llmrun.ParseMemory(text); err != nil || *ram < 1 {
			return fmt.Errorf("must be a size such as 64MiB or 10%%, not %q", text)
		}
		return nil
	})
}

// A memoryStats is what --stats shows of memory and flash. Scripts depend on its
// names.
type memoryStats struct {
	BudgetBytes int64            `json:"budget_bytes"` // 0 = unlimited
	PeakBytes   map[string]int64 `json:"peak_bytes"`   // by purpose
	// Of a token that was decoded.
	ReadBytesPerToken int64        `json:"read_bytes_per_token"`
	StallMS           float64      `json:"stall_ms"` // of the whole generation
	Stalls            int          `json:"stalls"`
	ReadGBs           float64      `json:"read_gb_s"` // reached while decoding
	Experts           *expertStats `json:"experts,omitempty"`
	KV                kvStats      `json:"kv"`
	Predicted         speeds       `json:"predicted"`
	Measured          speeds       `json:"measured"`
	// GPU is there with a GPU as --device.
	GPU *llmrun.Placement `json:"gpu,omitempty"`
	// Split is there with a --device such as cpu+gpu.
	Split []llmrun.SplitMatmul `json:"divided,omitempty"`
}

// speeds are tokens a second.
type speeds struct {
	Prefill float64 `json:"prefill_tok_per_s"`
	Decode  float64 `json:"decode_tok_per_s"`
}

// expertStats is how well the memory for experts served the tokens that were
// decoded.
type expertStats struct {
	Slots   int     `json:"slots"` // experts that memory holds
	Hits    int64   `json:"hits"`
	Misses  int64   `json:"misses"`
	HitRate float64 `json:"hit_rate"`
	// Of a token that was decoded.
	ReadBytesPerToken int64 `json:"read_bytes_per_token"`
}

func newExpertStats(u llmrun.ExpertUse, tokens int) *expertStats {
	if u.Slots == 0 {
		return nil
	}
	return &expertStats{u.Slots, u.Hits, u.Used - u.Hits, u.HitRate(), u.Bytes / int64(max(1, tokens))}
}

// decodedTokens returns how many tokens were computed one by one: all but the first, which comes
// out of reading the prompt, and the one that ended the text.
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
		BudgetBytes: report.Budget, PeakBytes: report.Peak,
		StallMS:   float64(stats.PrefillFlash.Stalled+stats.DecodeFlash.Stalled) / float64(time.Millisecond),
		Stalls:    stats.PrefillFlash.Stalls + stats.DecodeFlash.Stalls,
		KV:        newKVStats(stats),
		Predicted: speeds{report.Plan.PredictedPrefill, report.Plan.PredictedDecode},
		Measured:  speeds{finite(stats.PrefillTokPerS()), finite(stats.DecodeTokPerS())},
	}
	if n := decodedTokens(stats); n > 0 {
		m.ReadBytesPerToken = stats.DecodeFlash.Bytes / int64(n)
		m.Experts = newExpertStats(stats.DecodeFlash.Experts, n)
		m.ReadGBs = finite(float64(stats.DecodeFlash.Bytes) / 1e9 / stats.Decode.Seconds())
	}
	return m
}

// print shows the statistics to people.
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
		fmt.Fprintf(w, "flash: %s a token, %.2f GB/s; waited %.0f ms in %d stalls\n", cli.FormatBytes(m.ReadBytesPerToken), m.ReadGBs, m.StallMS, m.Stalls)
	}
	if x := m.Experts; x != nil {
		fmt.Fprintf(w, "experts: %d in memory; %d of %d that were used had been there, %.1f %%; %s a token were read\n",
			x.Slots, x.Hits, x.Hits+x.Misses, 100*x.HitRate, cli.FormatBytes(x.ReadBytesPerToken))
	}
	m.KV.print(w)
	if m.Predicted.Decode > 0 {
		fmt.Fprintf(w, "predicted at the start of a conversation: prompt %.1f tok/s, answer %.2f tok/s; measured: %.1f and %.2f\n",
			m.Predicted.Prefill, m.Predicted.Decode, m.Measured.Prefill, m.Measured.Decode)
	}
	if p := m.GPU; p != nil {
		fmt.Fprintf(w, "gpu: the last %d of %d layers and the output matrix in %s of the %s of %s; %s of weights with the processor\n", p.Layers, p.ModelLayers, cli.FormatBytes(p.Held), cli.FormatBytes(p.Memory), p.Device, cli.FormatBytes(p.Host))
	}
	for i := range m.Split {
		printSplitMatmul(w, &m.Split[i])
	}
}

// printSplitMatmul shows how matrices of one kind are divided.
func printSplitMatmul(w io.Writer, p *llmrun.SplitMatmul) {
	fmt.Fprintf(w, "divided: %s, %d of %d×%d %s: the other device has %.0f %% of one token", p.Name, p.Count, p.Rows, p.Cols, p.Type, 100*p.DecodeFraction)
	if p.PrefillFraction != p.DecodeFraction {
		fmt.Fprintf(w, ", %.0f %% of %d and more", 100*p.PrefillFraction, p.PrefillTokens)
	}
	for _, s := range []struct {
		of    string
		steps llmrun.SplitSteps
	}{{"one", p.Decode}, {"many", p.Prefill}} {
		if n := time.Duration(s.steps.Steps); n > 0 {
			fmt.Fprintf(w, "; a step of %s took %v, %v of it waiting", s.of, (s.steps.Took / n).Round(time.Microsecond), (s.steps.Waited / n).Round(time.Microsecond))
			if s.steps.Predicted > 0 {
				fmt.Fprintf(w, ", predicted %v", (s.steps.Predicted / n).Round(time.Microsecond))
			}
		}
	}
	fmt.Fprintln(w)
}
