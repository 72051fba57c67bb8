package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/cmd/llmrun/measure"
)

// deviceFlags say between which devices products are divided.
type deviceFlags struct {
	names  []string
	tokens []int // nil = defaultTokens
	shape  string
	mix    string
	share  float64 // of its time that the first device may be busy; 0 = all
	real   bool
	check  bool
}

// defaultTokens are decoding, and short and long chunks of prompts.
var defaultTokens = []int{1, 32, 128, 512}

// add declares the flags that plans of devices have.
func (d *deviceFlags) add(f *flagSet) {
	d.mix = defaultMix
	f.value("devices", "LIST", "one or two devices, separated by a comma: names of llmrun devices, or gpu or npu for the first of its kind; the first has to take any number of tokens", func(text string) error {
		d.names = nil
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name == "" {
				return fmt.Errorf("must be names separated by commas, not %q", text)
			}
			d.names = append(d.names, name)
		}
		return nil
	})
	f.counts(&d.tokens, "tokens", "numbers of tokens that are multiplied together, beside 1; without it, 1,32,128,512", 1, 1<<14)
	addPercent(f, &d.share, "share", "how much of the time of what is divided the first device may be busy, for others who need it; without it, 100%")
}

// addPercent declares a part of a whole.
func addPercent(f *flagSet, part *float64, name, usage string) {
	f.value(name, "PERCENT", usage, func(text string) error {
		n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		if err != nil || !(n > 0 && n <= 100) {
			return fmt.Errorf("must be a part such as 50%%, not %q", text)
		}
		*part = n / 100
		return nil
	})
}

// addShape declares what stands for a model.
func (d *deviceFlags) addShape(f *flagSet) {
	f.text(&d.shape, "shape", "NAME", "the shape of this model instead, without weights; llmrun synth --list shows them")
	addMix(f, &d.mix)
}

// plan measures what is not known and prints the plan.
func (d *deviceFlags) plan(ctx context.Context, s *streams, model *modelFlags, cache *cacheFlags, again, asJSON bool) error {
	if d.shape != "" && model.path != "" {
		return usagef("-m names a model and --shape makes one: give one of them")
	}
	bar := newMeter(s, "measuring", formatProducts)
	defer bar.finish()
	o := measure.DevicePlanOptions{
		Model: measure.ModelSource{Shape: d.shape, Quant: d.mix}, Devices: d.names, Tokens: d.tokens, Share: d.share,
		Real: d.real, Check: d.check, Again: again, Running: bar.update,
		Notice: s.note,
	}
	if o.Devices == nil {
		o.Devices = measure.DefaultDevices()
	}
	if o.Tokens == nil {
		o.Tokens = defaultTokens
	}
	path, options := model.source()
	o.Model.Path, o.Model.FS = path, options.FS
	if dir, err := cache.directory(); err == nil {
		o.Dir = dir
	}
	plan, err := measure.PlanDevices(ctx, o)
	bar.finish()
	if err != nil {
		return interruption(ctx, err)
	}
	if asJSON {
		return s.out.json(plan)
	}
	plan.WriteTables(s.out)
	return nil
}

// formatProducts is the amount of a meter that counts measured products.
func formatProducts(n int64) string { return fmt.Sprintf("%d products", n) }
