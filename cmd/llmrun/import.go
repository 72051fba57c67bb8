package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func importCommand() *cli.Command {
	return &cli.Command{
		Name:     "import",
		Synopsis: "MODEL [-o FILE.pack] [--replace] [flags]",
		Summary:  "write a model in the format that loads fastest",
		About: `Writes a model (a GGUF file, any part of a split one, or a Hugging Face directory) as a pack: one file with the weights in their memory layout, checksums, the tokenizer and the model's configuration. The import is lossless, also for GPTQ and AWQ weights, unless --quant quantizes float weights. -m takes a pack like any model.

Without -o the pack goes into the cache, where run and chat find it; they import a model on its first use. --replace writes the pack beside the model, verifies it, and then deletes the weight files: until then the disk holds both.

` + aboutMixes() + `

An interrupted import, or one that fills the disk, leaves no file.

--json prints one object: path and bytes of the pack, source_bytes of the model's files, with --nested the plane_bytes that are stored in two planes, and with --replace the files removed and the bytes freed.`,
		Examples: []cli.Example{
			{Line: "llmrun import model.gguf", Purpose: "import before the first run"},
			{Line: "llmrun import model.gguf --replace && llmrun chat -m model.pack", Purpose: "keep only the pack"},
			{Line: "llmrun import ~/models/qwen2.5-1.5b --quant q4 -o qwen.pack", Purpose: "quantize a float checkpoint to 4 bits"},
			{Line: "llmrun import ~/models/qwen2.5-1.5b --quant q4 --calibrate notes.txt -o qwen.pack", Purpose: "the same, calibrated on a text"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			i := &importFlags{}
			f.Group("Output")
			f.Text(&i.to, "o output", "FILE.pack", "the file to write; default: a file in the cache, or with --replace beside the model")
			f.Toggle(&i.replace, "replace", "delete the model's weight files after the pack is written and verified; the disk needs room for both until then")
			f.Toggle(&i.force, "force", "replace an existing pack")
			i.cache.addDir(f)
			f.Setting("cache-dir")
			f.Setting("cache-size")
			f.Toggle(&i.json, "json", "print one JSON object")
			f.Group("Weights")
			f.Choice(&i.quant, "quant", "MIX", "quantize float weights: "+cli.Either(mixNames())+", as described above; needs -o", mixNames()...)
			f.Text(&i.calibrate, "calibrate", "FILE", "with --quant to 4 bits: a text of the kind that the model will process; weights that large activations multiply are quantized more exactly")
			f.Toggle(&i.nested, "nested", "store weights of 4 to 8 bits (such as Q8_0, Q4_0, Q4_K) in two planes, so that memory for the high bits is enough: the low ones are streamed, and the high ones guess tokens; needs -o")
			f.Text(&i.nestedBits, "nested-bits", "BITS", "with --nested: bits of 4-bit weights in memory (of 8 and 6 bits 4, of 5 one less): 3; mixed: 2 of queries, keys, gate and up, and all of the others; or a percentage such as 75%, the part of the matrices in memory: bits are then chosen by matrix, from what they are worth on the text of --calibrate; default: 3")
			f.List(&i.lora, "lora", "PATH[:SCALE]", "LoRA adapter: a directory in peft's format, or a GGUF file; it is added to the weights, SCALE times as strongly; needs -o; may be given several times")
			return i.run
		},
	}
}

// importFlags are the flags of import.
type importFlags struct {
	cache   cacheFlags
	to      string // "" for the cache, or beside the model
	replace bool
	force   bool
	json    bool
	quant   string
	lora    []string
	nested  bool

	nestedBits string

	calibrate string // file with a text
}

func (i *importFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("give exactly one model to import")
	}
	model := args[0]
	if !i.replace { // which deletes files of models that were named by their path only
		model = namedModel(model)
	}
	if err := i.check(model); err != nil {
		return err
	}
	if err := checkAdapters(i.lora); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	text := ""
	if i.calibrate != "" {
		var err error
		if text, err = cli.ReadText(s, "--calibrate", i.calibrate); err != nil {
			return err
		}
	}
	bar := &phases{s: s, labels: []string{"importing", "checking"}}
	done, err := i.write(ctx, s, model, text, bar.report)
	bar.finish()
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if i.json {
		return s.Out.WriteJSON(done)
	}
	fmt.Fprintf(s.Out, "%s: %s from %s of %s\n", cli.VisibleLine(done.Path), cli.FormatBytes(done.Bytes), cli.FormatBytes(done.SourceBytes), cli.VisibleLine(filepath.Base(model)))
	if i.nested {
		fmt.Fprintf(s.Out, "in two planes: %s, %.1f %% of the pack\n", cli.FormatBytes(done.PlaneBytes), 100*float64(done.PlaneBytes)/float64(done.Bytes))
	}
	if i.replace {
		fmt.Fprintf(s.Out, "deleted %s: %s freed\n", cli.VisibleLine(strings.Join(done.Removed, ", ")), cli.FormatBytes(done.Freed))
	}
	return nil
}

// check refuses flags that contradict each other, and chooses a name.
func (i *importFlags) check(model string) error {
	if i.replace && i.to == "" {
		i.to = strings.TrimSuffix(strings.TrimRight(model, `/\`), ".gguf") + llmrun.PackSuffix
	}
	switch {
	case i.calibrate != "" && i.quant == "" && !strings.HasSuffix(i.nestedBits, "%"):
		return cli.Usagef("--calibrate needs --quant, or --nested-bits with a percentage")
	case i.nestedBits != "" && !i.nested:
		return cli.Usagef("--nested-bits needs --nested")
	case i.calibrate == "" && strings.HasSuffix(i.nestedBits, "%"):
		return cli.Usagef("--nested-bits %s chooses bits by what they are worth on a text: name one with --calibrate", i.nestedBits)
	case i.to == "" && i.nested:
		return cli.Usagef("--nested needs a file: name it with -o")
	case i.to == "" && (i.quant != "" || len(i.lora) > 0):
		return cli.Usagef("--quant and --lora change the model, and the cache holds unchanged models only: name the file with -o")
	case i.to == "":
		return nil
	case !strings.HasSuffix(i.to, llmrun.PackSuffix):
		return cli.Usagef("-o: the name must end in %s", llmrun.PackSuffix)
	}
	return refuseExisting(i.to, i.force)
}

// refuseExisting refuses to replace an existing file without --force.
func refuseExisting(path string, force bool) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return cli.Usagef("-o: %s exists; --force replaces it", path)
	}
	return nil
}

// write imports the model to the file of -o, or into the cache.
func (i *importFlags) write(ctx context.Context, s *cli.Streams, model, text string, progress func(llmrun.Progress)) (llmrun.Imported, error) {
	if i.to != "" {
		bar := cli.NewMeter(s, "calibrating", cli.FormatTokens)
		defer bar.Finish()
		return llmrun.Import(ctx, model, i.to, llmrun.ImportOptions{
			Replace: i.replace, Quantize: i.quant, Adapters: i.lora, Calibrate: text, Nested: i.planes(), Notify: s.Note,
			CalibrateProgress: func(p llmrun.Progress) {
				bar.Update(p.Done, p.Total)
				if p.Done == p.Total {
					bar.Finish()
				}
			},
			Progress: progress,
		})
	}
	dir, err := i.cache.directory()
	if err != nil {
		return llmrun.Imported{}, err
	}
	return llmrun.ImportCached(ctx, model, dir, i.cache.size, progress)
}

// planes returns ImportOptions.Nested.
func (i *importFlags) planes() string {
	if !i.nested {
		return llmrun.NestedNone
	}
	return cmp.Or(i.nestedBits, llmrun.NestedThree)
}

// mixNames lists the values of --quant.
func mixNames() (names []string) {
	for _, m := range llmrun.Mixes() {
		names = append(names, m.Name)
	}
	return names
}

// aboutMixes describes the values of --quant.
func aboutMixes() string {
	lines := []string{"--quant quantizes float weights in one of these mixes (norms, biases and routers stay as they are; an embedding that is not the output matrix takes 16 bits):"}
	for _, m := range llmrun.Mixes() {
		lines = append(lines, m.Name+": "+m.About+".")
	}
	return strings.Join(lines, "\n\n")
}

// phases shows several meters in sequence: the next one starts when the reported progress
// decreases.
type phases struct {
	s      *cli.Streams
	labels []string
	bar    *cli.Meter
	last   int64
}

func (p *phases) report(now llmrun.Progress) {
	if (p.bar == nil || now.Done < p.last) && len(p.labels) > 0 {
		p.finish()
		p.bar, p.labels = cli.NewMeter(p.s, p.labels[0], cli.FormatBytes), p.labels[1:]
	}
	p.last = now.Done
	p.bar.Update(now.Done, now.Total)
}

func (p *phases) finish() { p.bar.Finish() }
