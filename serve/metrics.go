package serve

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"sync"

	"github.com/llmrun/llmrun"
)

// metrics counts what /metrics shows.
type metrics struct {
	mu        sync.Mutex
	requests  map[string]int64 // by status code
	prompt    int64            // tokens of prompts that were computed
	cached    int64            // tokens of prompts that were reused
	restored  int64            // of those, tokens that came from flash
	generated int64
}

// engineTotals are counters of an engine since it was opened.
type engineTotals struct{ passes, passTokens, weightsRead, kvRead, kvWritten int64 }

func totalsOf(e *llmrun.Engine) engineTotals {
	kv, passes := e.KVUse(), e.PassUse()
	return engineTotals{passes.Passes, passes.Tokens, e.FlashUse().Bytes, kv.Read, kv.Written}
}

func (t *engineTotals) add(u engineTotals) {
	t.passes += u.passes
	t.passTokens += u.passTokens
	t.weightsRead += u.weightsRead
	t.kvRead += u.kvRead
	t.kvWritten += u.kvWritten
}

// count counts what an answer took so far, of which counted was counted before.
func (m *metrics) count(counted, s *llmrun.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prompt += int64(s.PromptTokens - s.ReusedTokens - (counted.PromptTokens - counted.ReusedTokens))
	m.cached += int64(s.ReusedTokens - counted.ReusedTokens)
	m.restored += int64(s.RestoredTokens - counted.RestoredTokens)
	m.generated += int64(s.GeneratedTokens - counted.GeneratedTokens)
	*counted = *s
}

// request counts an answered request.
func (m *metrics) request(status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[fmt.Sprint(status)]++
}

// metric starts a metric of Prometheus' text format.
func metric(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// codePurpose is the purpose of the program's code in the ledger of each engine.
const codePurpose = "code"

// heldMemory returns the memory of models by purpose. That of the program's code, which they share, counts once.
func heldMemory(open []loaded) map[string]int64 {
	ram := map[string]int64{}
	for _, l := range open {
		for purpose, bytes := range l.held {
			if purpose == codePurpose {
				ram[purpose] = max(ram[purpose], bytes)
			} else {
				ram[purpose] += bytes
			}
		}
	}
	return ram
}

// serveMetrics answers in the text format of Prometheus, version 0.0.4.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	open, totals := s.models.loaded()
	m := s.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range open {
		totals.add(l.totals)
	}
	ram := heldMemory(open)
	metric(w, "llmrun_tokens_total", "counter", "Tokens: computed and reused ones of prompts, counted with the first token of the answer, and generated ones, counted one by one.")
	fmt.Fprintf(w, "llmrun_tokens_total{kind=\"prompt\"} %d\n", m.prompt)
	fmt.Fprintf(w, "llmrun_tokens_total{kind=\"cached\"} %d\n", m.cached)
	fmt.Fprintf(w, "llmrun_tokens_total{kind=\"generated\"} %d\n", m.generated)
	metric(w, "llmrun_restored_tokens_total", "counter", "Tokens of prompts that were reused from flash.")
	fmt.Fprintf(w, "llmrun_restored_tokens_total %d\n", m.restored)
	metric(w, "llmrun_queue_length", "gauge", "Requests that are admitted and do not run.")
	fmt.Fprintf(w, "llmrun_queue_length %d\n", s.queue.length())
	metric(w, "llmrun_goroutines", "gauge", "Goroutines of the program. More and more of them would be a leak.")
	fmt.Fprintf(w, "llmrun_goroutines %d\n", runtime.NumGoroutine())
	metric(w, "llmrun_models_open", "gauge", "Models in memory.")
	fmt.Fprintf(w, "llmrun_models_open %d\n", len(open))
	metric(w, "llmrun_ram_bytes", "gauge", "Memory of the open models by purpose, with the program's code once.")
	for _, purpose := range slices.Sorted(maps.Keys(ram)) {
		fmt.Fprintf(w, "llmrun_ram_bytes{purpose=%q} %d\n", purpose, ram[purpose])
	}
	metric(w, "llmrun_flash_read_bytes_total", "counter", "Bytes read from flash: weights, keys and values.")
	fmt.Fprintf(w, "llmrun_flash_read_bytes_total{what=\"weights\"} %d\n", totals.weightsRead)
	fmt.Fprintf(w, "llmrun_flash_read_bytes_total{what=\"kv\"} %d\n", totals.kvRead)
	metric(w, "llmrun_flash_written_bytes_total", "counter", "Bytes of keys and values that were moved to flash.")
	fmt.Fprintf(w, "llmrun_flash_written_bytes_total %d\n", totals.kvWritten)
	metric(w, "llmrun_passes_total", "counter", "Passes over the weights. Requests share them.")
	fmt.Fprintf(w, "llmrun_passes_total %d\n", totals.passes)
	metric(w, "llmrun_pass_tokens_total", "counter", "Tokens of these passes: of prompts, answers and guesses. They are counted while answers run.")
	fmt.Fprintf(w, "llmrun_pass_tokens_total %d\n", totals.passTokens)
	metric(w, "llmrun_requests_total", "counter", "Answered requests by status code.")
	for _, code := range slices.Sorted(maps.Keys(m.requests)) {
		fmt.Fprintf(w, "llmrun_requests_total{code=%q} %d\n", code, m.requests[code])
	}
}
