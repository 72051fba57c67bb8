package main

import (
	"fmt"
	"io"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// kvStats is what --stats shows of keys and values.
type kvStats struct {
	HotTokens  int   `json:"hot_tokens"`  // in memory, of all that the pages hold
	ColdTokens int   `json:"cold_tokens"` // on flash
	HotPages   int   `json:"hot_pages"`
	ColdPages  int   `json:"cold_pages"`
	Read       int64 `json:"read_bytes"`
	Written    int64 `json:"written_bytes"`
	// Of a token that was decoded.
	ReadPerToken    int64   `json:"read_bytes_per_token"`
	WrittenPerToken int64   `json:"written_bytes_per_token"`
	StallMS         float64 `json:"stall_ms"` // of the whole generation
	Stalls          int     `json:"stalls"`
	Failed          string  `json:"failed,omitempty"`
	Recalled        int     `json:"recalled_tokens"` // of the prompt, from flash
	Kept            int64   `json:"kept_bytes"`      // that were written for later prompts and sessions
	// Selection is what was left out of what could be; none when nothing could.
	Selection *llmrun.SelectionUse `json:"selection,omitempty"`
}

func newKVStats(stats llmrun.Stats) kvStats {
	first, last := stats.PrefillKV, stats.DecodeKV
	n := int64(decodedTokens(stats))
	if n < 1 {
		last = llmrun.KVUse{PageTokens: first.PageTokens, HotPages: first.HotPages, ColdPages: first.ColdPages, Failed: first.Failed}
	}
	k := kvStats{
		HotTokens: last.HotPages * last.PageTokens, ColdTokens: last.ColdPages * last.PageTokens,
		HotPages: last.HotPages, ColdPages: last.ColdPages,
		Read: first.Read + last.Read, Written: first.Written + last.Written,
		StallMS: float64(first.Stalled+last.Stalled) / float64(time.Millisecond), Stalls: first.Stalls + last.Stalls,
		Failed: last.Failed, Recalled: stats.RestoredTokens, Kept: stats.SavedBytes,
	}
	if stats.Selection.Blocks > 0 {
		k.Selection = &stats.Selection
	}
	if n > 0 {
		k.ReadPerToken, k.WrittenPerToken = last.Read/n, last.Written/n
	}
	return k
}

// print shows where keys and values were, if any went to flash.
func (k *kvStats) print(w io.Writer) {
	if k.ColdPages > 0 || k.Written > 0 {
		fmt.Fprintf(w, "kv: %d pages in memory, %d on flash (%d tokens); read %s and wrote %s a token, wrote %s in all; waited %.0f ms in %d stalls\n",
			k.HotPages, k.ColdPages, k.ColdTokens, cli.FormatBytes(k.ReadPerToken), cli.FormatBytes(k.WrittenPerToken), cli.FormatBytes(k.Written), k.StallMS, k.Stalls)
	}
	if k.Recalled > 0 || k.Kept > 0 {
		fmt.Fprintf(w, "kv: %d tokens of the prompt came from flash, %s were written for later\n", k.Recalled, cli.FormatBytes(k.Kept))
	}
	if x := k.Selection; x != nil {
		fmt.Fprintf(w, "kv: looked at %d of %d blocks that could be left out, %.1f %%; read %s of them from flash\n",
			x.Selected, x.Blocks, 100*float64(x.Selected)/float64(x.Blocks), cli.FormatBytes(x.Read))
	}
	if k.Failed != "" {
		fmt.Fprintf(w, "kv: kept in memory what should have gone to flash: %s\n", k.Failed)
	}
}
