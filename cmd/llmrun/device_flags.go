package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/deviceplan"
	"github.com/llmrun/llmrun/internal/modelflag"
)

// deviceFlags select the devices that split matmuls.
type deviceFlags struct {
	names  []string
	tokens []int // nil = defaultTokens
	shape  string
	mix    string
	quota  float64 // part of the time that the first device may be busy; 0 = all
	real   bool
	check  bool
}

// defaultTokens are the token counts of decoding, and of short and long prefill chunks.
var defaultTokens = []int{1, 32, 128, 512}

// add declares the flags of device plans.
func (d *deviceFlags) add(f *cli.FlagSet) {
	d.mix = modelflag.DefaultMix
	f.Value("devices", "LIST", "one or two devices, separated by a comma: names that llmrun devices lists, or gpu or npu for the first of its kind; the first device must accept any number of tokens", d.setNames)
	f.Counts(&d.tokens, "tokens", "numbers of tokens in a matmul, in addition to 1; default: 1,32,128,512", 1, 1<<14)
	f.Percent(&d.quota, "share", "the part of the time that the first device may be busy, which leaves the rest to other programs; default: 100%")
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

// addShape declares the flags of a shape in place of a model.
func (d *deviceFlags) addShape(f *cli.FlagSet) {
	f.Text(&d.shape, "shape", "NAME", "plan for the shape of this model, without weights; llmrun synth --list shows the shapes")
	modelflag.AddMix(f, &d.mix)
}

// plan measures matmuls that are not measured yet, and prints the plan.
func (d *deviceFlags) plan(ctx context.Context, s *cli.Streams, model *modelFlags, cache *cacheFlags, again, asJSON bool) error {
	if d.shape != "" && model.path != "" {
		return cli.Usagef("-m names a model and --shape generates one: give one of them")
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
	path, options, err := model.source()
	if err != nil {
		return err
	}
	o.Model.Path, o.Model.FS = path, options.FS
	if dir, err := cache.directory(); err == nil {
		o.Dir = dir
	}
	plan, err := deviceplan.PlanDevices(ctx, o)
	bar.Finish()
	if errors.Is(err, bench.ErrShape) {
		return modelflag.UnknownShape(d.shape)
	}
	if errors.Is(err, deviceplan.ErrDevices) || errors.Is(err, deviceplan.ErrUnknown) {
		return cli.Usagef("--devices: %v", err)
	}
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if asJSON {
		return s.Out.WriteJSON(plan)
	}
	showDevicePlan(s.Out, plan)
	return nil
}

// formatMatmuls formats the amount of a meter that counts measured matmuls.
func formatMatmuls(n int64) string { return fmt.Sprintf("%d matmuls", n) }

// showDevicePlan prints a plan as tables. The model's name is a part of a line.
func showDevicePlan(w io.Writer, plan *deviceplan.DevicePlan) {
	shown := *plan
	shown.Model = cli.VisibleLine(plan.Model)
	shown.WriteTables(cli.Visible(w))
}
