package main

import (
	"context"
	"fmt"
	"math"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

func benchKVCommand() *command {
	return &command{
		name:     "bench kv",
		synopsis: "{-m MODEL | --shape NAME} [--ctx LIST] [--kv-ram SIZE] [--disk SPEED] [flags]",
		summary:  "time a token behind contexts on flash, against what was predicted",
		about: `Decodes behind contexts of several lengths, in turns: with all keys and values in memory; with older ones on flash that each layer asks for when it needs them; and with those asked for while other work is done, as run does. The speed of flash is measured before and after each context, with the same reads. From it and the times in memory follow where flash no longer keeps up and what each token of context costs from there on, which is printed beside what was measured. The contexts are made up, not read, so that long ones cost nothing.

--ram limits weights, keys and values together, so that both are on flash: then a token is compared with the time that the bytes of both take. That needs a pack.

Prints a table in Markdown; --svg draws it as well. Models whose layers see a part of the context only are refused.`,
		examples: []example{
			{"llmrun bench kv -m model.gguf --svg kv.svg > kv.md", "a table and a picture of this disk"},
			{"llmrun bench kv --shape llama-3.2-1b --disk 1GB/s", "a shape, with the flash of a phone"},
			{"llmrun bench kv -m model.pack --ram 50% --ctx 4096,16384", "weights on flash as well"},
		},
		prepare: func(f *flagSet) action {
			b := &benchKVFlags{bench: benchFlags{mix: defaultMix}}
			b.o.Contexts, b.o.Decode, b.o.Repeats = []int{1024, 2048, 3072, 4096, 5120, 6144, 8192, 16384, 32768}, 4, 3
			b.bench.model.addModel(f)
			f.text(&b.bench.shape, "shape", "NAME", "random weights in the shape of this model instead; llmrun synth --list shows them")
			addMix(f, &b.bench.mix)
			f.toggle(&b.bench.keep, "keep", "do not remove the file that --shape writes")
			b.bench.model.addKV(f)
			f.group("Configurations")
			f.counts(&b.o.Contexts, "ctx", "tokens of context, cut to what the model has room for; without it, 1024 to 32768", 1, math.MaxInt32)
			f.value("kv-ram", "SIZE", "memory for keys and values: a size, or a percentage of the memory that is available on this machine (not of the model, as --ram here); without it, what 2048 tokens take, or what --ram leaves", func(text string) (err error) {
				if b.o.KVRAM, err = llmrun.ParseMemory(text); err != nil || b.o.KVRAM < 1 {
					return fmt.Errorf("must be a size such as 64MiB, not %q", text)
				}
				return nil
			})
			f.text(&b.o.RAM, "ram", "SIZE", "memory for weights, keys and values: a size, or a percentage of the bytes of the model's tensors (not of the memory that is available, as --ram of run and plan); without it, all weights stay in memory")
			f.count(&b.o.Decode, "tg", "N", "tokens of a measurement; without it, 4", 1, 1<<16)
			f.count(&b.o.Repeats, "r repeats", "N", "measurements of each kind; without it, 3", 1, 1000)
			f.count(&b.o.Threads, "threads", "N", "threads to compute with; without it, one for each fast core", 1, 1024)
			f.value("disk", "SPEED", "read as slowly as from another disk, such as 1GB/s, or 800MB/s,100us with a wait for each read", func(text string) (err error) {
				b.o.Disk, err = llmrun.ParseDiskSpeed(text)
				return err
			})
			f.text(&b.cache.dir, "cache-dir", "DIR", "where keys and values go; without it, llmrun in the user's cache directory")
			f.group("Output")
			f.toggle(&b.json, "json", "print one JSON object instead of the table")
			f.text(&b.svg, "svg", "FILE", "draw the times as well")
			return b.run
		},
	}
}

// benchKVFlags are the flags of bench kv.
type benchKVFlags struct {
	bench benchFlags // the model
	cache cacheFlags
	json  bool
	svg   string
	o     measure.KVOptions
}

func (b *benchKVFlags) run(ctx context.Context, s *streams, args []string) (err error) {
	if err := noArguments(args); err != nil {
		return err
	}
	if err := b.check(); err != nil {
		return err
	}
	if b.o.Dir, err = b.cache.directory(); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	b.o.Path, b.o.KV = b.bench.model.path, b.bench.model.kv
	if b.bench.shape != "" {
		remove, err := b.bench.synthesize(ctx, s)
		if err != nil {
			return err
		}
		defer remove()
		b.o.Path = b.bench.o.Path
	}
	report, err := measured(ctx, s, formatContexts, &b.o.Running, func(ctx context.Context) (*measure.KVReport, error) {
		return measure.KVCurves(ctx, b.o)
	})
	if err != nil {
		return err
	}
	return present(s, b.json, report, report.WriteTable, drawing{b.svg, report.WritePlot})
}

// check refuses flags that contradict each other.
func (b *benchKVFlags) check() error {
	switch {
	case (b.bench.shape != "") == (b.bench.model.path != ""):
		return usagef("give either -m, a model, or --shape, which makes one")
	case b.bench.keep && b.bench.shape == "":
		return usagef("--keep needs --shape")
	case b.bench.shape != "" && b.o.RAM != "":
		return usagef("--ram needs a pack: write the shape with synth and import it")
	}
	return nil
}

// formatContexts is the amount of a meter that counts contexts.
func formatContexts(n int64) string { return fmt.Sprintf("%d contexts", n) }
