package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/deviceplan"
	"github.com/llmrun/llmrun/internal/modelflag"
)

// deviceFlags say between which devices products are divided.
type deviceFlags struct {
	names  []string
	tokens []int // nil = defaultTokens
	shape  string
	mix    string
	quota  float64 // of its time that the first device may be busy; 0 = all
	real   bool
	check  bool
}

// defaultTokens are decoding, and short and long chunks of prompts.
var defaultTokens = []int{1, 32, 128, 512}

// add declares the flags that plans of devices have.
func (d *deviceFlags) add(f *cli.FlagSet) {
	d.mix = modelflag.DefaultMix
	f.Value("devices", "LIST", "one or two devices, separated by a comma: names that llmrun devices lists, or gpu or npu for the first of its kind; the first device must accept any number of tokens", d.setNames)
	f.Counts(&d.tokens, "tokens", "numbers of tokens that are multiplied together, beside 1; without it, 1,32,128,512", 1, 1<<14)
	f.Percent(&d.quota, "share", "how much of the time of what is divided the first device may be busy, for others who need it; without it, 100%")
}

// setNames takes the value of --devices.
func (d *deviceFlags) setNames(text string) error {
	d.names = nil
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return fmt.Errorf("must be names separated by commas, not %q", text)
		}
		d.names = append(d.names, name)
	}
	if n := len(d.names); n > 2 || n == 2 && d.names[0] == d.names[1] {
		return fmt.Errorf("must be one device or two different ones, not %q", text)
	}
	return nil
}

// addShape declares what stands for a model.
func (d *deviceFlags) addShape(f *cli.FlagSet) {
	f.Text(&d.shape, "shape", "NAME", "the shape of this model instead, without weights; llmrun synth --list shows them")
	modelflag.AddMix(f, &d.mix)
}

// plan measures what is not known and prints the plan.
func (d *deviceFlags) plan(ctx context.Context, s *cli.Streams, model *modelFlags, cache *cacheFlags, again, asJSON bool) error {
	if d.shape != "" && model.path != "" {
		return cli.Usagef("-m names a model and --shape makes one: give one of them")
	}
	bar := cli.NewMeter(s, "measuring", formatMatmuls)
	defer bar.Finish()
	o := deviceplan.Options{
		Model: deviceplan.ModelSource{Shape: d.shape, Quant: d.mix}, Devices: d.names, Tokens: d.tokens, Quota: d.quota,
		Real: d.real, Check: d.check, Remeasure: again, Running: bar.Update,
		Notify: s.Note,
	}
	if o.Devices == nil {
		o.Devices = deviceplan.DefaultDevices()
	}
	if o.Tokens == nil {
		o.Tokens = defaultTokens
	}
	path, options := model.source()
	o.Model.Path, o.Model.FS = path, options.FS
	if dir, err := cache.directory(); err == nil {
		o.Dir = dir
	}
	plan, err := deviceplan.PlanDevices(ctx, o)
	bar.Finish()
	if errors.Is(err, bench.ErrShape) {
		return modelflag.UnknownShape(d.shape)
	}
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if asJSON {
		return s.Out.WriteJSON(plan)
	}
	plan.WriteTables(s.Out)
	return nil
}

// formatMatmuls is the amount of a meter that counts measured products.
func formatMatmuls(n int64) string { return fmt.Sprintf("%d products", n) }
