package split

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/tiering"
)

// A plan is made of predictions of single products, and every one of them may be
// wrong. So whole passes of the model have the last word: it is loaded for the
// processor alone and timed, then divided and timed. Never both at once, which memory
// may have no room for.

// trial loads a model as it was planned to be divided, or less of it divided where that
// is faster.
type trial struct {
	files   *modelfile.Files
	model   exec.Options
	threads int // of the processor without the device; 0 = all fast cores
	o       *Options
	plan    *planner
}

// halvesHost reports whether the device is made of cores that are the processor's without
// it. What is left to the processor then has less of it than without a division.
func (t *trial) halvesHost() bool { return t.model.Threads != t.threads }

// losses says what passes the processor computes sooner alone, whatever was planned.
type losses struct{ prompts, tokens bool }

// apply returns what is left of a share; own is the one with all rows here.
func (l losses) apply(share, own weights.Share, oneToken bool) weights.Share {
	if l.tokens {
		share.One, share.OneTime = own.One, own.OneTime
	}
	if oneToken { // of a prompt as well
		share.Many, share.ManyTime = share.One, share.OneTime
	} else if l.prompts { // and what is shorter than many, too: nobody has tried it
		share.Many, share.ManyTime, share.Least = own.Many, own.ManyTime, 2
	}
	return share
}

// lossesOf returns what is not worth it.
func lossesOf(t *profiles.Trial) losses {
	return losses{
		prompts: t.Planned.Prompt > 0 && !paysOff(t.Planned.Prompt, t.Alone.Prompt),
		tokens:  t.Planned.Token > 0 && !paysOff(t.Planned.Token, t.Alone.Token),
	}
}

// load loads the model. Where somebody wants the device alone, or where pages of keys
// and values go is closed by the first model that has it, nothing is tried.
func (t *trial) load(ctx context.Context, products []weights.Product) (m *exec.Model, err error) {
	prompts, tokens := t.offloads(products)
	if !prompts && !tokens {
		t.model.Threads = t.threads
		return t.loadSplit(ctx)
	}
	if t.o.Alone || t.model.KVSpill != nil {
		return t.loadSplit(ctx)
	}
	passes := t.passes(products)
	result := t.known(passes)
	if result == nil {
		t.report("the division with %s is tried before it is used: passes are timed on the processor alone, then divided", t.o.Device)
		m, result, err = t.compare(ctx, passes, timing{prompts: prompts || t.halvesHost(), tokens: tokens || t.halvesHost(), chunk: t.model.Chunk}, t.loadSplit)
		if err != nil || result == nil {
			return m, err
		}
	}
	if t.halvesHost() {
		t.applyToAllCores(result)
	} else {
		t.applyResult(result)
	}
	if m != nil && t.plan.losses == (losses{}) {
		return m, nil
	}
	if m != nil {
		m.Close() // rows that are the processor's now are in the device's memory only
	}
	return t.loadSplit(ctx)
}

// passes are what a trial of the plan is about.
func (t *trial) passes(products []weights.Product) profiles.Passes {
	about := t.describe(products)
	if t.model.W8A8 != nil {
		about = t.model.W8A8.Identity() + ": " + about
	}
	if t.halvesHost() {
		about = "or all cores: " + about
	}
	return profiles.Passes{Matmuls: about, Chunk: t.model.Chunk, Exact: t.model.Exact}
}

// known returns what an earlier trial has found, nil for nothing.
func (t *trial) known(passes profiles.Passes) *profiles.Trial {
	return t.plan.bench.profile.Trial(t.plan.bench.keys, passes)
}

// offloads reports whether the device has a part in prompts, and in single tokens.
func (t *trial) offloads(products []weights.Product) (prompts, tokens bool) {
	for _, p := range products {
		share := t.plan.splitOf(p)
		prompts = prompts || share.Many < p.Rows && !p.OneToken
		tokens = tokens || share.One < p.Rows
	}
	return prompts, tokens
}

// describe returns the model's products and how they are divided, in words: the first
// row of the device for one token and for many, and how many those are.
func (t *trial) describe(products []weights.Product) string {
	var words []string
	for _, p := range products {
		share := t.plan.splitOf(p)
		text := fmt.Sprintf("%d %s of %d×%d %v: %d/%d/%d", p.Count, p.Name, p.Rows, p.Cols, p.Type, share.One, share.Many, share.Least)
		if n, short := t.plan.capacity[matmulKey(p)]; short {
			text += fmt.Sprintf(" in %d", n)
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// compare times passes on the processor alone, and then as they are planned, and keeps
// that. It returns the model as planned, and no result where memory has no room for the
// other way.
func (t *trial) compare(ctx context.Context, passes profiles.Passes, timed timing, planned func(context.Context) (*exec.Model, error)) (m *exec.Model, result *profiles.Trial, err error) {
	result = &profiles.Trial{Passes: passes}
	result.Alone, err = t.timeAlone(ctx, timed)
	if errors.Is(err, tiering.ErrBudget) {
		t.reportUntried(err)
		m, err = planned(ctx)
		return m, nil, err
	} else if err != nil {
		return nil, nil, err
	}
	if m, err = planned(ctx); err != nil {
		return nil, nil, err
	}
	result.Planned, err = timePasses(timed, ctx, m)
	if errors.Is(err, tiering.ErrBudget) {
		t.reportUntried(err)
		return m, nil, nil
	} else if err != nil {
		m.Close()
		return nil, nil, err
	}
	profiles.SaveTrial(t.o.Dir, t.plan.bench.keys, *result, t.o.Report)
	return m, result, nil
}

// timePasses times passes. Tests replace it.
var timePasses = timing.run

// timeAlone times passes on the processor, and gives all memory back.
func (t *trial) timeAlone(ctx context.Context, timed timing) (took profiles.PassTimes, err error) {
	room, err := t.model.Budget.Reserve(tiering.Pinned, t.files.TensorBytes())
	if err != nil {
		return took, err // now and not when most of it has been read
	}
	room.Release() // parts take it one by one
	model := t.model
	model.Threads = t.threads
	m, err := exec.Load(ctx, t.files, model)
	if err != nil {
		return took, err
	}
	defer m.Close()
	return timePasses(timed, ctx, m)
}

// reportUntried says why a plan is used all the same: there is no choice.
func (t *trial) reportUntried(err error) {
	t.report("%s is used without a trial, which memory has no room for: %v", t.o.Device, err)
}

// loadSplit loads the model as it is divided by now.
func (t *trial) loadSplit(ctx context.Context) (*exec.Model, error) {
	// Another device than that of the measurements: buffers stay attached until one is
	// closed.
	device, err := devices.All.Open(t.o.Device, devices.Options{Budget: t.model.Budget, Memory: t.o.Memory})
	if err != nil {
		return nil, err
	}
	model := t.model
	model.Split = &exec.Split{Name: t.o.Device, Device: device, Of: t.plan.assign(), Chunk: t.plan.chunk, Grain: hetero.Grain(device.Clock()), Trace: t.o.Trace}
	return exec.Load(ctx, t.files, model)
}

// applyResult leaves to the processor what a trial says that it computes sooner.
func (t *trial) applyResult(result *profiles.Trial) {
	t.plan.losses = lossesOf(result)
	for _, kind := range []struct {
		lost           bool
		name           string
		planned, alone time.Duration
	}{
		{t.plan.losses.prompts, "prompts", result.Planned.Prompt, result.Alone.Prompt},
		{t.plan.losses.tokens, "single tokens", result.Planned.Token, result.Alone.Token},
	} {
		if kind.lost {
			t.report("%s stay on the processor: divided with %s a pass took %v, and alone %v", kind.name, t.o.Device, kind.planned.Round(time.Microsecond), kind.alone.Round(time.Microsecond))
		}
	}
}

// applyToAllCores gives the processor all of its cores where a trial says that these compute
// whole passes sooner than its parts do. A part that had only prompts, or only tokens,
// would keep its cores from the rest.
func (t *trial) applyToAllCores(result *profiles.Trial) {
	planned, alone := answerTime(result.Planned), answerTime(result.Alone)
	if paysOff(planned, alone) {
		return
	}
	t.plan.losses = losses{prompts: true, tokens: true}
	t.model.Threads = t.threads
	t.report("%s stays with the processor: a prompt and %d tokens took %v divided with it, and %v on all cores", t.o.Device, answerTokens, planned.Round(time.Microsecond), alone.Round(time.Microsecond))
}

// report tells the owner, if he wants to know.
func (t *trial) report(format string, about ...any) {
	if t.o.Report != nil {
		t.o.Report(fmt.Sprintf(format, about...))
	}
}
