package main

import (
	"fmt"
	"io"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// kvStats are the statistics of keys and values that --stats prints.
type kvStats struct {
	HotTokens  int   `json:"hot_tokens"`  // in memory, counting whole pages
	ColdTokens int   `json:"cold_tokens"` // on flash
	HotPages   int   `json:"hot_pages"`
	ColdPages  int   `json:"cold_pages"`
	Read       int64 `json:"read_bytes"`
	Written    int64 `json:"written_bytes"`
	// Per decoded token.
	ReadPerToken    int64 `json:"read_bytes_per_token"`
	WrittenPerToken int64 `json:"written_bytes_per_token"`
	// ColdReadFraction is the bytes that were read while decoding, divided by the bytes on flash.
	ColdReadFraction float64 `json:"cold_read_fraction"`
	StallMS          float64 `json:"stall_ms"` // over the whole generation
	Stalls           int     `json:"stalls"`
	// AheadPages are pages in memory that are written already; SpillStallMS is the time that
	// tokens waited for pages to be written, over the whole generation.
	AheadPages   int     `json:"ahead_pages"`
	SpillStallMS float64 `json:"spill_stall_ms"`
	SpillStalls  int     `json:"spill_stalls"`
	// SaveStallMS is the time that tokens waited for saved pages to be written.
	SaveStallMS float64 `json:"save_stall_ms"`
	SaveStalls  int     `json:"save_stalls"`
	Failed      string  `json:"failed,omitempty"`
	Restored    int     `json:"recalled_tokens"` // prompt tokens that came from the prefix cache
	Saved       int64   `json:"kept_bytes"`      // written for later prompts and sessions
	// Selection counts the blocks that attention selected; nil if no block could be skipped.
	Selection *llmrun.SelectionUse `json:"selection,omitempty"`
}

func newKVStats(stats llmrun.Stats) kvStats {
	first, last := stats.PrefillKV, stats.DecodeKV
	n := int64(decodedTokens(stats))
	if n < 1 {
		last = llmrun.KVUse{PageTokens: first.PageTokens, HotPages: first.HotPages, ColdPages: first.ColdPages, AheadPages: first.AheadPages, Failed: first.Failed}
	}
	k := kvStats{
		HotTokens: last.HotPages * last.PageTokens, ColdTokens: last.ColdPages * last.PageTokens,
		HotPages: last.HotPages, ColdPages: last.ColdPages,
		Read: first.Read + last.Read, Written: first.Written + last.Written,
		StallMS: milliseconds(first.Stalled + last.Stalled), Stalls: first.Stalls + last.Stalls,
		AheadPages: last.AheadPages, SpillStallMS: milliseconds(first.SpillStalled + last.SpillStalled), SpillStalls: first.SpillStalls + last.SpillStalls,
		SaveStallMS: milliseconds(first.SaveStalled + last.SaveStalled), SaveStalls: first.SaveStalls + last.SaveStalls,
		Failed: last.Failed, Restored: stats.RestoredTokens, Saved: stats.SavedBytes,
	}
	if stats.Selection.Blocks > 0 {
		k.Selection = &stats.Selection
	}
	if last.Cold > 0 && n > 0 {
		k.ColdReadFraction = float64(last.Read) / float64(last.Cold)
	}
	if n > 0 {
		k.ReadPerToken, k.WrittenPerToken = last.Read/n, last.Written/n
	}
	return k
}

// print shows the statistics to a person, if any keys and values went to flash.
func (k *kvStats) print(w io.Writer) {
	if k.ColdPages > 0 || k.Written > 0 {
		fmt.Fprintf(w, "kv: %d pages in memory, %d on flash (%d tokens); read %s (%.1f %% of what is on flash) and wrote %s per token, wrote %s in total; waited %.0f ms in %d stalls for reads, %.0f ms in %d for spills and %.0f ms in %d for saves\n",
			k.HotPages, k.ColdPages, k.ColdTokens, cli.FormatBytes(k.ReadPerToken), 100*k.ColdReadFraction, cli.FormatBytes(k.WrittenPerToken), cli.FormatBytes(k.Written), k.StallMS, k.Stalls, k.SpillStallMS, k.SpillStalls, k.SaveStallMS, k.SaveStalls)
	}
	if k.Restored > 0 || k.Saved > 0 {
		fmt.Fprintf(w, "kv: %d prompt tokens came from the prefix cache, %s were written to it\n", k.Restored, cli.FormatBytes(k.Saved))
	}
	if x := k.Selection; x != nil {
		fmt.Fprintf(w, "kv: attended to %d of %d selectable blocks, %.1f %%; read %s of them from flash\n",
			x.Selected, x.Blocks, 100*float64(x.Selected)/float64(x.Blocks), cli.FormatBytes(x.Read))
	}
	if k.Failed != "" {
		fmt.Fprintf(w, "kv: pages stayed in memory because writing them to flash failed: %s\n", cli.VisibleLine(k.Failed))
	}
}
