package llmrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// PlanAdvice is a change that makes a model faster, or makes it run at all.
type PlanAdvice struct {
	// Change is written as flags of the llmrun command, such as "--kv k8v8".
	Change string `json:"change"`
	// Decode is the predicted speed with the change, with half of the context in use; 0 if the
	// machine was not measured, because the model does not run without the change and
	// PlanOptions.MeasureRefused is not set.
	Decode float64 `json:"decode_tok_per_s,omitempty"`
}

const (
	// adviceGain is the least factor by which a change must raise the speed.
	adviceGain = 1.03
	// A shorter context is advised down to leastAdvisedContext tokens, and a selection from
	// leastSelectedContext on.
	leastAdvisedContext, leastSelectedContext = 2048, 4096
	// ramStep rounds an advised budget up.
	ramStep = 1 << 20
)

// adviser compares a plan with those of changed options.
type adviser struct {
	opts      *Options
	f         *modelfile.Files
	perTensor *exec.W8A8
	measurer  rateMeasurer
	measures  bool  // predict speeds
	measured  Rates // zero if the model does not run
	plan      *MemoryPlan
}

// advise lists the changes that help, in the order of their cost for the user.
func (a *adviser) advise(ctx context.Context) error {
	format := a.opts.kvFormat(a.f).String()
	for _, to := range []string{"k8v8", "k4v8"} {
		if format == to || format == "k4v8" || format == "k8f8" && to == "k8v8" {
			continue
		}
		if err := a.try(ctx, "--kv "+to, func(o *Options) { o.Memory.KV = to }); err != nil {
			return err
		}
	}
	if a.opts.selection().Exact() && a.plan.Context >= leastSelectedContext {
		if err := a.try(ctx, "--kv-select 0.1", func(o *Options) { o.Memory.KVSelect = "0.1" }); err != nil {
			return err
		}
	}
	if n := a.shorter(); n > 0 {
		if err := a.try(ctx, fmt.Sprintf("--ctx %d", n), func(o *Options) { o.Context = n }); err != nil {
			return err
		}
	}
	if n := a.moreRAM(ctx); n > 0 {
		if err := a.try(ctx, fmt.Sprintf("--ram %dMiB", n/ramStep), func(o *Options) { o.Memory.RAM = n }); err != nil {
			return err
		}
	}
	if a.f.Quantized() || a.opts.Quantize != "" || a.opts.Exact || a.opts.Lab.W8A8 != nil || a.opts.FS != nil {
		return nil
	}
	return a.tryQuantized(ctx)
}

// shorter returns the context to advise: half, or the longest that runs; 0 for none, also if it
// would not hold the planned prompt.
func (a *adviser) shorter() int {
	n, least := a.plan.fits, 1
	if n == 0 {
		n, least = a.plan.Context/2, leastAdvisedContext
	}
	if prompt := a.opts.Memory.PromptTokens; prompt > 0 {
		least = max(least, prompt+a.opts.answerRoom())
	}
	if n < least {
		return 0
	}
	return n
}

// moreRAM returns the budget with which nothing is read from flash, or the smallest one with
// which the model runs; 0 if there is no budget or nothing is read.
func (a *adviser) moreRAM(ctx context.Context) int64 {
	if a.plan.Budget <= 0 {
		return 0
	}
	n := a.plan.Minimum
	if a.plan.Runs {
		o := *a.opts
		o.Memory.RAM, o.Context = NoLimit, a.plan.Context
		whole, err := o.admit(ctx, a.f, a.perTensor)
		if err != nil {
			return 0
		}
		n = whole.plan.Total()
	}
	if n <= a.plan.Budget {
		return 0
	}
	return (n + ramStep - 1) / ramStep * ramStep
}

// try adds a change to the advice if it helps.
func (a *adviser) try(ctx context.Context, change string, set func(*Options)) error {
	o := *a.opts
	o.Context = a.plan.Context
	set(&o)
	if err := o.validate(); err != nil {
		return ignoreRefusal(err)
	}
	admitted, err := o.admit(ctx, a.f, a.perTensor)
	if err != nil {
		return ignoreRefusal(err)
	}
	r := a.measured
	switch {
	case a.plan.Runs:
		err = a.measurer.attention(ctx, a.f, o.shapeOptions(a.f, nil), &r)
	case a.measures:
		_, r, err = o.predict(ctx, a.f, &admitted, a.measurer)
		a.measurer.remeasure = false
	}
	if err != nil {
		return err
	}
	return a.add(change, &admitted, r)
}

// tryQuantized adds a smaller quantization of a model of floats, as a pack.
func (a *adviser) tryQuantized(ctx context.Context) (err error) {
	o := *a.opts
	o.Context, o.Quantize = a.plan.Context, "q4"
	f := a.openQuantized(&o)
	if f == nil {
		return nil
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	admitted, err := o.admit(ctx, f, nil)
	if err != nil {
		return ignoreRefusal(err)
	}
	admitted.shape.Convert = 0
	var r Rates
	if a.measures {
		m := a.measurer
		m.of(&admitted)
		if r, err = m.rates(ctx, f, admitted.plan.Piece); err != nil {
			return err
		}
		if err := m.attention(ctx, f, o.shapeOptions(f, nil), &r); err != nil {
			return err
		}
	}
	return a.add("import --quant q4", &admitted, r)
}

// openQuantized opens the model with the weights that Quantize makes, or returns nil for a model
// that cannot be quantized.
func (a *adviser) openQuantized(o *Options) *modelfile.Files {
	f, err := o.openChanged(a.f.Path)
	if err != nil {
		return nil
	}
	return f
}

// add appends a change if its plan is faster, or if nothing runs without it.
func (a *adviser) add(change string, to *admission, r Rates) error {
	plan, err := makePlan(to.shape, to.need, r.forPlan())
	if err != nil {
		return ignoreRefusal(err)
	}
	decode := 0.0
	if f := plan.Predicted; f != nil {
		decode = f.DecodeHalf
	}
	if !a.plan.Runs || decode > adviceGain*a.plan.Decode.Half {
		a.plan.Advice = append(a.plan.Advice, PlanAdvice{change, decode})
	}
	return nil
}

// ignoreRefusal returns nil for a refusal: a change that does not run, or that excludes another option, is no
// advice.
func ignoreRefusal(err error) error {
	if errors.Is(err, tiering.ErrBudget) || errors.Is(err, ErrOptions) {
		return nil
	}
	return err
}
