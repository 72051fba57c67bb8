package main

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func calibrateCommand() *cli.Command {
	return &cli.Command{
		Name:     "calibrate",
		Synopsis: "-f FILE [-m MODEL] [-o FILE] [flags]",
		Summary:  "measure scales and outliers of activations, for --w8a8",
		About: `Runs a model on a text and writes the calibration that --w8a8 needs: for each input of matrices the scale of its 8-bit activations, the channels with values beyond that scale (outliers), and their importance. Hot channels are the few channels with most of the outliers; their float weights stay in memory when the model runs. The file also stores the float weights of all channels by column, so that a rare channel takes one read.

Use several thousand tokens of text of the kind that the model will process. Experts are not calibrated. Without -o the file has the model's path with the suffix ` + llmrun.CalibrationSuffix + `.

--json prints one object: path, bytes, tokens, and inputs, the most important first. Each input has name, channels, scale (of an integer step), max (the largest magnitude), importance (max as a multiple of 127 steps), loss (how many times larger errors get without the outlier path), outliers (the fraction of elements), ever (channels that had any), hot, hot_share (the hot channels' fraction of the outliers), and stored (the file holds the float weights).`,
		Examples: []cli.Example{
			{Line: "llmrun calibrate -m qwen.pack -f notes.txt", Purpose: "writes qwen.pack" + llmrun.CalibrationSuffix},
			{Line: "llmrun calibrate -m qwen.pack -f notes.txt --shadows 0.15", Purpose: "a small file, with an outlier path for the most important inputs only"},
			{Line: "llmrun calibrate -f notes.txt -o demo" + llmrun.CalibrationSuffix + " && llmrun perplexity -f book.txt --w8a8 --calibration demo" + llmrun.CalibrationSuffix, Purpose: defaultModel},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &calibrateFlags{}
			c.model.addModel(f)
			c.model.addThreads(f)
			c.model.addLoRA(f)
			f.Group("Calibration")
			f.Text(&c.file, "f file", "FILE", "the text; - for standard input")
			f.Text(&c.to, "o output", "FILE", "the file to write; default: a file beside the model")
			f.Toggle(&c.force, "force", "replace an existing file")
			f.Fraction(&c.outliers, "outliers", "the fraction of an input's values that may exceed its scale; default: 0.003, or 4 channels if that is more, or up to 0.1 if many values are far larger than the others")
			f.Fraction(&c.stored, "shadows", "the fraction of the inputs, the most important ones, whose float weights the file stores; default: all")
			f.Group("Output")
			f.Toggle(&c.json, "json", "print one JSON object")
			return c.run
		},
	}
}

// calibrateFlags are the flags of calibrate.
type calibrateFlags struct {
	model    modelFlags
	file     string
	to       string // "": beside the model
	force    bool
	outliers float64 // 0: the library's default
	stored   float64 // fraction of the inputs; 0: all
	json     bool
}

func (c *calibrateFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	text, err := cli.ReadText(s, "-f", c.file)
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	reading, writing := cli.NewMeter(s, "reading", cli.FormatTokens), cli.NewMeter(s, "writing", cli.FormatBytes)
	defer reading.Finish()
	defer writing.Finish()
	path, options, err := c.model.source()
	if err != nil {
		return err
	}
	done, err := llmrun.Calibrate(ctx, path, text, llmrun.CalibrateOptions{
		FS: options.FS, To: c.to, Threads: options.Threads, Adapters: options.Adapters,
		OutlierFraction: c.outliers, StoredFraction: c.stored,
		Progress: func(p llmrun.Progress) {
			if reading.Update(p.Done, p.Total); p.Done == p.Total {
				reading.Finish()
			}
		},
		Written: func(p llmrun.Progress) { writing.Update(p.Done, p.Total) },
	})
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	writing.Finish()
	if c.json {
		return s.Out.WriteJSON(done)
	}
	showCalibration(s, done)
	return nil
}

// check refuses flags that contradict each other, and chooses the name of the file.
func (c *calibrateFlags) check() error {
	switch {
	case c.file == "":
		return cli.Usagef("-f is missing: give the text to calibrate with")
	case c.to == "" && c.model.file() == "":
		return cli.Usagef("-o is missing: name the file to write, because the bundled demo model has no directory")
	case c.to == "":
		path, err := findModel("-m", c.model.path)
		if err != nil {
			return err
		}
		c.to = path + llmrun.CalibrationSuffix
	}
	return refuseExisting(c.to, c.force)
}

// shownInputs is the number of inputs in the table.
const shownInputs = 12

// showCalibration prints the most important inputs.
func showCalibration(s *cli.Streams, c llmrun.Calibration) {
	fmt.Fprintf(s.Out, "%s: %s, from %d tokens\n\n", cli.VisibleLine(c.Path), cli.FormatBytes(c.Bytes), c.Tokens)
	fmt.Fprintf(s.Out, "%-32s %10s %10s %9s %16s %s\n", "input of", "importance", "max", "outliers", "channels with", "hot (of outliers)")
	for _, in := range c.Inputs[:min(shownInputs, len(c.Inputs))] {
		fmt.Fprintf(s.Out, "%-32s %10.2f %10.4g %8.3f%% %8d of %4d %4d (%.0f%%)\n",
			in.Name, in.Importance, in.Max, 100*in.Outliers, in.Ever, in.Channels, in.Hot, 100*in.HotFraction)
	}
	if more := len(c.Inputs) - shownInputs; more > 0 {
		fmt.Fprintf(s.Out, "and %d less important ones; --json lists all\n", more)
	}
}
