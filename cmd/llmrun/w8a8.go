package main

import (
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// w8a8Flags are the flags of W8A8: integer matmuls with one scale per input, as NPUs compute them.
type w8a8Flags struct {
	on          bool
	calibration string
	outlierPath string   // "on", which "" means, or "off"
	prune       *float64 // nil: the library's default
	trace       string   // file
}

// addW8A8 declares --w8a8 and the flags that need it, for commands that compute.
func (m *modelFlags) addW8A8(f *cli.FlagSet) {
	w := &w8a8Flags{}
	m.w8a8 = w
	f.Group("W8A8: integer matmuls as NPUs compute them")
	f.Toggle(&w.on, "w8a8", "multiply the matrices of layers in 8-bit integers, with one scale for all activations of an input; a float path handles outliers. Needs llmrun calibrate. With --device cpu+npu the NPU computes integer rows, and the CPU the outliers")
	f.Text(&w.calibration, "calibration", "FILE", "the calibration that llmrun calibrate wrote; default: the model's path with "+llmrun.CalibrationSuffix)
	f.Value("shadow", "on|off", "with --w8a8: compute the outlier path or not; default: on", func(text string) error {
		if text != "on" && text != "off" {
			return fmt.Errorf("must be on or off, not %q", text)
		}
		w.outlierPath = text
		return nil
	})
	var prune float64
	f.Value("prune", "FRACTION", "with --w8a8: drop the outlier path of this fraction of the inputs, the least important ones, from 0 to 1; default: 0.85, but inputs that would lose more than 2 of their 8 bits keep it", func(text string) (err error) {
		if prune, err = cli.ParseFraction(text); err == nil {
			w.prune = &prune
		}
		return err
	})
	f.Text(&w.trace, "trace", "FILE", "write a trace for chrome://tracing or Perfetto: with --w8a8, of the integer and the float half of each thread; with --device gpu or cpu+NAME, of the device's commands and waits")
}

// apply sets the library's options. exact reports --exact; --w8a8 overrides the exactness that
// scoring commands have by default.
func (w *w8a8Flags) apply(o *llmrun.Options, exact bool) error {
	if w == nil {
		return nil
	}
	if !w.on {
		if w.calibration != "" || w.outlierPath != "" || w.prune != nil {
			return cli.Usagef("--calibration, --shadow and --prune need --w8a8")
		}
		if o.Lab.Trace = w.trace; o.Lab.Trace != "" && !o.Traceable() {
			return cli.Usagef("--trace needs --w8a8, --device gpu or --device cpu+NAME")
		}
		return nil
	}
	if exact {
		return cli.Usagef("--exact and --w8a8 exclude each other: 8-bit integers are not exact")
	}
	o.Lab.W8A8 = &llmrun.W8A8{Calibration: w.calibration, NoOutlierPath: w.outlierPath == "off"}
	if w.prune != nil {
		o.Lab.W8A8.Outliers = 1 - *w.prune
		o.Lab.W8A8.NoOutlierPath = o.Lab.W8A8.NoOutlierPath || *w.prune == 1
	}
	o.Exact, o.Lab.Trace = false, w.trace
	if o.FS != nil && w.calibration == "" {
		return cli.Usagef("--w8a8 needs a calibration: write one for the bundled demo model with llmrun calibrate -o, and name it in --calibration")
	}
	return nil
}
