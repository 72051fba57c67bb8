package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/bench/spec"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
)

// specWord is the argument of llmrun bench that compares drafters.
const specWord = "spec"

// specFlags are the flags of bench spec besides those of bench.
type specFlags struct {
	prompt      promptFlags
	model       modelFlags // only drafts and disk
	temperature *float32
	cache       cacheFlags
	text        string // of the prompt, once it is read
}

// add declares the flags.
func (p *specFlags) add(f *cli.FlagSet) {
	f.Group("bench spec")
	f.Text(&p.model.drafts.Drafter, "draft", "HOW", "the drafter to compare with none: lookup, nested, auto, or the path of a small model with the same vocabulary; default: all that need no other model")
	f.Count(&p.model.drafts.Max, "draft-max", "N", "most guesses in a pass; default: 16", 1, 256)
	p.prompt.add(f)
	f.OptionalNumber(&p.temperature, "temp", "temperature; default: 0, which is greedy", 0, 100)
	p.model.addDisk(f)
	p.cache.addDir(f)
}

// given reports whether a flag of bench spec was given.
func (p *specFlags) given() bool {
	return p.prompt.given() || p.model.drafts != (llmrun.DraftOptions{}) || p.temperature != nil || p.model.disk != (llmrun.DiskSpeed{}) || p.cache != (cacheFlags{})
}

// measurement is the measurement of llmrun bench spec.
func (p *specFlags) measurement(s *cli.Streams, model *modelflag.Source, ram *ramFlag, o *bench.Options) modelflag.Measurement[*spec.Report] {
	m := spec.Options{Max: p.model.drafts.Max, Turns: o.Repeats, Tokens: o.Decode[0]}
	if p.temperature != nil {
		m.Temperature = *p.temperature
	}
	return modelflag.Measurement[*spec.Report]{
		Model:  model,
		Amount: func(n int64) string { return fmt.Sprintf("%d answers", n) },
		Check: func() error {
			switch {
			case o.Sustain > 0:
				return cli.Usagef("--minutes: bench spec has no such test")
			case !slices.Equal(o.Prefill, []int{defaultPrefill}):
				return cli.Usagef("--pp: bench spec answers prompts, those of -p and -f or its own; leave it out")
			case o.Chunk != 0:
				return cli.Usagef("--chunk: bench spec plans the chunk, as run does")
			case o.Decode[0] < 2:
				return cli.Usagef("--tg is %d: bench spec generates at least 2 tokens", o.Decode[0])
			case p.model.drafts.Drafter == llmrun.DraftOff:
				return cli.Usagef("--draft off: bench spec compares a drafter with none; leave it out, or give lookup, nested, auto or the path of a model")
			}
			return p.readPrompt(s, &m)
		},
		Run: func(ctx context.Context, t modelflag.Target) (*spec.Report, error) {
			if p.model.drafts.Drafter != "" {
				m.Drafters = []string{p.model.drafts.Drafter}
			}
			m.Open, m.Running = p.open(t, ram, o), t.Running
			report, err := spec.Run(ctx, m)
			switch {
			case errors.Is(err, llmrun.ErrNoTokenizer):
				return nil, cli.Usagef("-m: bench spec needs a model with a tokenizer, for its prompts: %v", err)
			case errors.Is(err, spec.ErrShort):
				return nil, cli.Usagef("-p: %v; give a prompt with a longer answer", err)
			case err != nil:
				return nil, err
			}
			for drafter, why := range report.Skipped {
				report.Skipped[drafter] = namesFlags(why)
			}
			return report, nil
		},
		Write: showSpec,
	}
}

// readPrompt takes the prompt of the flags, if there is one.
func (p *specFlags) readPrompt(s *cli.Streams, m *spec.Options) error {
	if !p.prompt.given() {
		return nil
	}
	text, err := p.prompt.read(s, false)
	p.text, m.Prompts = text, []spec.Prompt{{Name: "prompt", Text: text}}
	return err
}

// open returns the function that opens the model as run does, with a drafter.
func (p *specFlags) open(t modelflag.Target, ram *ramFlag, o *bench.Options) func(context.Context, llmrun.DraftOptions) (*llmrun.Engine, error) {
	return func(ctx context.Context, d llmrun.DraftOptions) (*llmrun.Engine, error) {
		progress := func(p llmrun.Progress) { t.Loading(p.Done, p.Total) }
		options := llmrun.Options{
			FS: t.FS, Threads: o.Threads[len(o.Threads)-1], Context: specContext(o), Progress: progress, Drafts: d, Notify: t.Notify,
			Memory: llmrun.MemoryOptions{RAM: ram.bytes, KV: o.KV}, Lab: llmrun.LabOptions{Disk: p.model.disk},
			Cache: llmrun.CacheOptions{ImportProgress: progress},
		}
		if text := p.text; text != "" && o.Depths[0] == 0 {
			// The context that run chooses for the prompt, with room for the answer.
			options.Context, options.Memory.Prompt = 0, llmrun.PromptMemory(int64(len(text)))
			options.Memory.PromptTexts, options.Memory.PromptTokens = []string{text}, o.Decode[0]
		}
		p.cache.noKV = true
		p.cache.apply(&options)
		return llmrun.OpenContext(ctx, t.Path, options)
	}
}

// specContext is the context of bench spec: room for its own prompts, or for one of --depth tokens, and for the answer.
func specContext(o *bench.Options) int { return cmp.Or(o.Depths[0], 1536) + o.Decode[0] }

// showSpec prints a table for a person.
func showSpec(r *spec.Report, w io.Writer) {
	fmt.Fprintf(w, "%-9s %-9s %9s  %-17s %8s %8s %7s %13s  %s\n", "prompt", "guesses", "tok/s", "lowest–highest", "speed", "tok/pass", "passes", "from flash", "right guesses")
	for _, t := range r.Tests {
		fmt.Fprintf(w, "%-9s %-9s %9.1f  %-17s %7.2fx %8.2f %7d %10.2f MB ", t.Prompt, drafterLabel(t.Drafter), t.TokPerSec.Median,
			fmt.Sprintf("%.1f–%.1f", t.TokPerSec.Min, t.TokPerSec.Max), t.Speed, t.TokensPerPass, t.Passes, float64(t.BytesPerToken)/1e6)
		for _, g := range t.Guesses {
			fmt.Fprintf(w, " %s %d of %d", g.Name, g.Accepted, g.Proposed)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	for _, drafter := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(w, "not measured: %s: %s\n", drafter, cli.VisibleLine(r.Skipped[drafter]))
	}
	if r.Pays == llmrun.DraftOff {
		fmt.Fprintf(w, "no guesses pay here: none makes all prompts together %.0f %% faster, and faster in three of four turns\n", 100*(spec.PaysFrom-1))
		return
	}
	fmt.Fprintf(w, "--draft %s pays: all prompts together %.2f times as fast as without guesses (%.2f to %.2f in single turns)\n", cli.VisibleLine(r.Pays), r.Speed, r.SpeedMin, r.SpeedMax)
}

// drafterLabel is the name of a drafter in a table; a path is long.
func drafterLabel(drafter string) string {
	switch drafter {
	case llmrun.DraftOff, llmrun.DraftLookup, llmrun.DraftNested, llmrun.DraftAuto:
		return drafter
	}
	return "model"
}
