package main

import (
	"fmt"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// barWidth is the length of the bar of the whole budget.
const barWidth = 40

// showPlan prints a plan for a person. budgetOf describes what a percentage of --ram refers to,
// "" without one.
func showPlan(s *cli.Streams, p *llmrun.MemoryPlan, budgetOf string) {
	fmt.Fprintf(s.Out, "%s: %s of weights, %d tokens of context in %s, %d threads\n\n",
		strings.Map(cli.VisibleRune, p.Model), cli.FormatBytes(p.WeightBytes), p.Context, p.KV, p.Threads)
	showMemory(s, p)
	if budgetOf != "" {
		fmt.Fprintf(s.Out, "%-15s %s\n", "the budget is", budgetOf)
	}
	fmt.Fprintln(s.Out)
	showSections(s, p)
	fmt.Fprintln(s.Out)
	showSpeed(s, p)
}

// showMemory prints the purposes of memory, with a bar for each.
func showMemory(s *cli.Streams, p *llmrun.MemoryPlan) {
	whole := p.Budget
	if whole == 0 {
		whole = p.Total()
	}
	line := func(label string, bytes int64, mark string) {
		length := int((bytes*barWidth + whole/2) / whole)
		fmt.Fprintln(s.Out, strings.TrimRight(fmt.Sprintf("%-15s %10s  %s", label, cli.FormatBytes(bytes), strings.Repeat(mark, length)), " "))
	}
	for _, item := range p.Memory() {
		line(item.Purpose, item.Bytes, "█")
	}
	if p.Budget == 0 {
		line("no limit", p.Total(), "░")
		return
	}
	line("unused", p.Budget-p.Total(), "░")
	line("budget", p.Budget, "░")
}

// showSections prints which parts of the model stay in memory.
func showSections(s *cli.Streams, p *llmrun.MemoryPlan) {
	line := func(label, format string, args ...any) {
		fmt.Fprintf(s.Out, "%-15s %s\n", label, fmt.Sprintf(format, args...))
	}
	layers := len(p.Pinned)
	var all, pinned int64
	for _, section := range p.Sections[:layers] {
		all, pinned = all+section.Bytes, pinned+section.Pinned
	}
	line(fmt.Sprintf("%d layers", layers), "%s", residencyOf(pinned, all))
	head := p.Sections[layers]
	line("output", "%s", residencyOf(head.Pinned, head.Bytes))
	if p.Experts > 0 {
		line("experts", "%d of %d in memory, the most recently used", p.ExpertSlots, p.Experts)
	}
	if p.KVCold > 0 {
		line("conversation", "%s of keys and values in memory, and %s of %d tokens on flash", cli.FormatBytes(p.KVHot), cli.FormatBytes(p.KVCold), p.Context)
	}
	for _, section := range p.Sections[layers+1:] {
		line(section.Name, "%s on flash, read row by row", cli.FormatBytes(section.Bytes))
	}
}

// residencyOf says how many of a section's bytes stay in memory.
func residencyOf(pinned, all int64) string {
	switch pinned {
	case all:
		return fmt.Sprintf("%s, all in memory", cli.FormatBytes(all))
	case 0:
		return fmt.Sprintf("%s, all streamed from flash", cli.FormatBytes(all))
	}
	return fmt.Sprintf("%s, of which %s in memory and %s streamed from flash", cli.FormatBytes(all), cli.FormatBytes(pinned), cli.FormatBytes(all-pinned))
}

// showSpeed prints the predicted speed and the measurements that it uses.
func showSpeed(s *cli.Streams, p *llmrun.MemoryPlan) {
	fmt.Fprintf(s.Out, "%-15s %s\n", "prompt", predicted(p.PredictedPrefill, fmt.Sprintf("in chunks of %d tokens, slower after a long context", p.Chunk), p.StreamedPerChunk, "chunk"))
	fmt.Fprintf(s.Out, "%-15s %s\n", "answer", predicted(p.PredictedDecode, "at the start of a conversation", p.StreamedPerToken, "token"))
	m := p.Measured
	fmt.Fprintf(s.Out, "%-15s flash %.2f GB/s; with %d threads, weights in %s %.1f GB/s, prompts %.0f Gop/s (%s)\n",
		"measured", m.FlashGBs, m.Threads, m.Weights, m.DecodeGBs, m.PrefillGops, m.Measured.Format("2006-01-02 15:04"))
}

// predicted formats a predicted speed and the bytes read for it.
func predicted(speed float64, how string, streamed int64, unit string) string {
	digits := "%.3g" // gives 1e+03 for a thousand
	if speed >= 100 {
		digits = "%.0f"
	}
	text := fmt.Sprintf("about "+digits+" tok/s %s", speed, how)
	if streamed == 0 {
		return text
	}
	return fmt.Sprintf("%s, reading %s for each %s", text, cli.FormatBytes(streamed), unit)
}
