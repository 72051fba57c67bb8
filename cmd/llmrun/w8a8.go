package main

import (
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// w8a8Flags say whether and how products are computed as neural processors do.
type w8a8Flags struct {
	on          bool
	calibration string
	shadow      string   // "on", which "" means, or "off"
	prune       *float64 // nil: the library's choice
	trace       string   // file
}

// addW8A8 declares --w8a8 and what belongs to it, for commands that compute.
func (m *modelFlags) addW8A8(f *cli.FlagSet) {
	w := &w8a8Flags{}
	m.w8a8 = w
	f.Group("Integers of 8 bits, as neural processors multiply them")
	f.Toggle(&w.on, "w8a8", "multiply the matrices of layers in integers, with one scale for each input; outliers go through floats beside them. Needs llmrun calibrate. With --device cpu+npu the NPU has rows of the integers, and the processor the outliers")
	f.Text(&w.calibration, "calibration", "FILE", "what llmrun calibrate wrote; without it, "+llmrun.CalibrationSuffix+" beside the model")
	f.Value("shadow", "on|off", "with --w8a8: whether outliers are computed at all; without it, on", func(text string) error {
		if text != "on" && text != "off" {
			return fmt.Errorf("must be on or off, not %q", text)
		}
		w.shadow = text
		return nil
	})
	var prune float64
	f.Value("prune", "SHARE", "with --w8a8: the part of the inputs, those that matter least, whose outliers are dropped, from 0 to 1; without it, 0.85 but for inputs that would lose more than 2 of their 8 bits", func(text string) (err error) {
		if prune, err = cli.ParseFraction(text); err == nil {
			w.prune = &prune
		}
		return err
	})
	f.Text(&w.trace, "trace", "FILE", "with --w8a8: write when each thread worked at which half; with --device gpu or cpu+NAME: what it did when, and what was waited for; for chrome://tracing or Perfetto")
}

// apply sets what the flags ask for. exact says that --exact was given; that o is
// exact because a command scores gives way to --w8a8.
func (w *w8a8Flags) apply(o *llmrun.Options, exact bool) error {
	if w == nil {
		return nil
	}
	if !w.on {
		if w.calibration != "" || w.shadow != "" || w.prune != nil {
			return cli.Usagef("--calibration, --shadow and --prune belong to --w8a8")
		}
		if o.Lab.Trace = w.trace; o.Lab.Trace != "" && !o.Traceable() {
			return cli.Usagef("--trace belongs to --w8a8, --device gpu or --device cpu+NAME")
		}
		return nil
	}
	if exact {
		return cli.Usagef("--exact and --w8a8 exclude each other: integers of 8 bits are never exact")
	}
	o.Lab.W8A8 = &llmrun.W8A8{Calibration: w.calibration, NoOutlierPath: w.shadow == "off"}
	if w.prune != nil {
		o.Lab.W8A8.Outliers = 1 - *w.prune
		o.Lab.W8A8.NoOutlierPath = o.Lab.W8A8.NoOutlierPath || *w.prune == 1
	}
	o.Exact, o.Lab.Trace = false, w.trace
	if o.FS != nil && w.calibration == "" {
		return cli.Usagef("the bundled model has no calibration: write one with llmrun calibrate -o and name it in --calibration")
	}
	return nil
}
