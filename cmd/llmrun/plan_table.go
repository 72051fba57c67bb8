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
		cli.VisibleLine(p.Model), cli.FormatBytes(p.WeightBytes), p.Context, p.KV, p.Threads)
	showMemory(s, p)
	if budgetOf != "" {
		fmt.Fprintf(s.Out, "%-15s %s\n", "the budget is", budgetOf)
	}
	fmt.Fprintln(s.Out)
	if p.GPU != nil {
		showGPU(s, p)
	} else {
		showSections(s, p)
	}
	fmt.Fprintln(s.Out)
	if p.Measured.Threads > 0 {
		showSpeed(s, p)
		return
	}
	showDeviceSpeed(s, p)
}

// showDeviceSpeed prints the speed with a device: what the trial of a split has measured, or how to
// measure it.
func showDeviceSpeed(s *cli.Streams, p *llmrun.MemoryPlan) {
	switch {
	case p.PredictedDecode > 0:
		fmt.Fprintf(s.Out, "%-15s about %s tok/s, and a prompt %s tok/s, at the start of a conversation: a run has timed the passes of this split\n", "answer", speedText(p.PredictedDecode), speedText(p.PredictedPrefill))
	case p.GPU == nil && p.Resident():
		fmt.Fprintf(s.Out, "%-15s not measured: a run times the passes of this split if the device computes any rows, and plan then predicts from them\n", "speed")
	default:
		fmt.Fprintf(s.Out, "%-15s not predicted with this device: run --stats with the same flags measures it\n", "speed")
	}
}

// showGPU prints which layers a GPU computes, and which parts of the others stay in memory.
func showGPU(s *cli.Streams, p *llmrun.MemoryPlan) {
	on := p.GPU
	fmt.Fprintf(s.Out, "%-15s %s, %s of memory\n", "gpu", on.Device, cli.FormatBytes(on.Memory))
	fmt.Fprintf(s.Out, "%-15s the last %d of %d and the output matrix: %s, with keys and values of %d tokens\n", "layers on GPU", on.Layers, on.ModelLayers, cli.FormatBytes(on.Need), on.Context)
	var all int64
	for _, section := range p.Sections[:len(p.Pinned)] {
		all += section.Bytes
	}
	if all == 0 {
		fmt.Fprintf(s.Out, "%-15s none\n", "layers on CPU")
	} else {
		fmt.Fprintf(s.Out, "%-15s %d: %s\n", "layers on CPU", len(p.Pinned), residencyOf(on.Host, all))
	}
	showRows(s, p)
}

// showRows prints the parts that are read row by row.
func showRows(s *cli.Streams, p *llmrun.MemoryPlan) {
	for _, section := range p.Sections[len(p.Pinned)+1:] {
		fmt.Fprintf(s.Out, "%-15s %s on flash, read row by row\n", section.Name, cli.FormatBytes(section.Bytes))
	}
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
	if p.KVDepth > 0 {
		line("", "beyond %d tokens, more than --cache-writes allows today or the disk has room for", p.KVDepth)
	}
	showRows(s, p)
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
	fmt.Fprintf(s.Out, "%-15s %s tok/s behind %d tokens, %s behind %d\n", "", speedText(p.Decode.Half), p.Context/2, speedText(p.Decode.Full), p.Context)
	showExperts(s, p)
	showGuesses(s, p)
	showTogether(s, p)
	showConversation(s, p)
	showAdvice(s, p)
	m := p.Measured
	converted := ""
	if m.ConvertGBs > 0 {
		converted = fmt.Sprintf(", converted at %.2f GB/s", m.ConvertGBs)
	}
	fmt.Fprintf(s.Out, "%-15s flash %.2f GB/s%s; with %d threads, weights in %s %.1f GB/s, prompts %.0f Gop/s (%s)\n",
		"measured", m.FlashGBs, converted, m.Threads, m.Weights, m.DecodeGBs, m.PrefillGops, m.Measured.Format("2006-01-02 15:04"))
	if m.Disturbed() {
		fmt.Fprintf(s.Out, "%-15s other programs used the processors meanwhile: the speeds are too low; starts from ten minutes later on measure again, and so does --measure\n", "")
	}
}

// showExperts says how the plan knows which experts tokens need, if it matters.
func showExperts(s *cli.Streams, p *llmrun.MemoryPlan) {
	switch {
	case p.ExpertSlots >= p.Experts:
	case p.Rates.ExpertReuse == 0 && p.Rates.PromptReuse == 0:
		fmt.Fprintf(s.Out, "%-15s as if chosen evenly, which reads the most: no run has shown the favourites of the router\n", "experts")
	default:
		fmt.Fprintf(s.Out, "%-15s chosen as earlier runs saw it\n", "experts")
	}
}

// showGuesses prints the predicted speed with guesses of tokens.
func showGuesses(s *cli.Streams, p *llmrun.MemoryPlan) {
	for _, g := range p.Guesses {
		known := "as texts that repeat themselves are assumed to give: no run has measured it"
		if g.Drafter != llmrun.DraftLookup {
			known = "which is assumed: no run has measured it"
		}
		if g.Seen > 0 {
			known = "as in earlier runs"
		}
		text := fmt.Sprintf("about %s tok/s at the start, with %.2f tokens a pass, %s", speedText(g.Decode), g.TokensPerPass, known)
		if g.Guesses == 0 {
			text = "none: a pass of several tokens takes too long to pay"
		}
		fmt.Fprintf(s.Out, "%-15s %s: %s\n", "with guesses", g.Drafter, text)
	}
	if p.GuessesNotPredicted != "" {
		fmt.Fprintf(s.Out, "%-15s not predicted: %s; llmrun bench spec measures whether guesses pay\n", "with guesses", p.GuessesNotPredicted)
	}
}

// showTogether prints the predicted speed of several answers at the same time.
func showTogether(s *cli.Streams, p *llmrun.MemoryPlan) {
	var parts []string
	for _, t := range p.Together {
		parts = append(parts, fmt.Sprintf("%s with %d", speedText(t.Decode), t.N))
	}
	if len(parts) > 0 {
		fmt.Fprintf(s.Out, "%-15s several answers at the same time, tok/s of all: %s; llmrun bench batch measures it\n", "together", strings.Join(parts, ", "))
	}
}

// showConversation prints the time of a prompt and an answer.
func showConversation(s *cli.Streams, p *llmrun.MemoryPlan) {
	text := fmt.Sprintf("after %s, with a prompt of %d tokens", secondsText(p.FirstToken), p.Prompt)
	if p.Forgotten > 0 {
		text += "; " + slidText(p.Prompt, p.Forgotten)
	}
	if p.Answer > 0 {
		text += fmt.Sprintf("; %s with an answer of %d tokens", secondsText(p.TotalTime), p.Answer)
	}
	fmt.Fprintf(s.Out, "%-15s %s\n", "first token", text)
}

// showAdvice prints what would make the model faster.
func showAdvice(s *cli.Streams, p *llmrun.MemoryPlan) {
	for _, a := range p.Advice {
		fmt.Fprintf(s.Out, "cheaper or faster: %s gives %s tok/s instead of %s, with half of the context in use\n", a.Change, speedText(a.Decode), speedText(p.Decode.Half))
	}
}

// secondsText formats a time for a person.
func secondsText(seconds float64) string {
	switch {
	case seconds < 0.1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	case seconds < 120:
		return fmt.Sprintf("%.3g s", seconds)
	}
	return fmt.Sprintf("%.0f min", seconds/60)
}

// speedText formats a speed without an exponent.
func speedText(speed float64) string {
	if speed >= 100 {
		return fmt.Sprintf("%.0f", speed)
	}
	return fmt.Sprintf("%.3g", speed)
}

// predicted formats a predicted speed and the bytes read for it.
func predicted(speed float64, how string, streamed int64, unit string) string {
	text := fmt.Sprintf("about %s tok/s %s", speedText(speed), how)
	if streamed == 0 {
		return text
	}
	return fmt.Sprintf("%s, reading %s for each %s", text, cli.FormatBytes(streamed), unit)
}
