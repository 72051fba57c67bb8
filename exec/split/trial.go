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

// A plan consists of predictions for single matmuls, and each may be wrong. So a
// trial times whole passes: it loads the model for the CPU alone, times it, then
// loads it as planned and times that. The two are never in memory at the same time.

// trial loads a model as planned, or with fewer splits where that is faster.
type trial struct {
	files   *modelfile.Files
	matmuls []weights.Matmul
	model   exec.Options
	threads int // of the CPU without the device; 0 = all fast cores
	o       *Options
	plan    *planner
	// makePlan plans the memory of the CPU's rows; nil keeps all of them in memory.
	makePlan PlanFunc
}

// halvesHost reports whether the device consists of CPU cores. Then the CPU has
// fewer cores than without the split.
func (t *trial) halvesHost() bool { return t.model.Threads != t.threads }

// losses are the passes that the CPU computes faster alone.
type losses struct{ prompts, tokens bool }

// apply returns the split without the losing passes; own is the split with all rows
// on the CPU.
func (l losses) apply(split, own weights.RowSplit, oneToken bool) weights.RowSplit {
	if l.tokens {
		split.Single, split.SingleTime = own.Single, own.SingleTime
	}
	if oneToken { // in prompts as well
		split.Batch, split.BatchTime = split.Single, split.SingleTime
	} else if l.prompts { // shorter prompts too: the trial did not cover them
		split.Batch, split.BatchTime, split.MinBatch = own.Batch, own.BatchTime, 2
	}
	return split
}

// lossesOf returns the losses in a trial.
func lossesOf(t *profiles.Trial) losses {
	return losses{
		prompts: t.Planned.Prompt > 0 && !paysOff(t.Planned.Prompt, t.Alone.Prompt),
		tokens:  t.Planned.Token > 0 && !paysOff(t.Planned.Token, t.Alone.Token),
	}
}

// load loads the model. It makes no trial if the device must run alone, or if the
// model spills KV pages, because the first model would close the spill file.
func (t *trial) load(ctx context.Context, matmuls []weights.Matmul) (m *exec.Model, err error) {
	prompts, tokens := t.offloads(matmuls)
	if !prompts && !tokens {
		t.model.Threads = t.threads
		return t.loadSplit(ctx)
	}
	if t.o.Alone || t.model.KVSpill != nil {
		return t.loadSplit(ctx)
	}
	passes := t.passes(matmuls)
	result := t.known(passes)
	if result == nil {
		t.report("trial of the split with %s: timing passes on the CPU alone, then split", t.o.Device)
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
		m.TrimCache() // the KV of the timed passes: a model begins without any
		return m, nil
	}
	if m != nil {
		m.Close() // rows that the CPU computes now are only in the device's memory
	}
	return t.loadSplit(ctx)
}

// passes identify the plan of a trial. Stored trials depend on these texts: do not
// change them.
func (t *trial) passes(matmuls []weights.Matmul) profiles.Passes {
	about := t.describe(matmuls)
	if t.model.W8A8 != nil {
		about = t.model.W8A8.Identity() + ": " + about
	}
	if t.halvesHost() {
		about = "or all cores: " + about
	}
	return profiles.Passes{Matmuls: about, Chunk: t.model.Chunk, Exact: t.model.Exact}
}

// known returns the result of an earlier trial, nil for none.
func (t *trial) known(passes profiles.Passes) *profiles.Trial {
	return t.plan.bench.profile.Trial(t.plan.bench.keys, passes)
}

// offloads reports whether the device takes part in prompts, and in single tokens.
func (t *trial) offloads(matmuls []weights.Matmul) (prompts, tokens bool) {
	for _, p := range matmuls {
		split := t.plan.splitOf(p)
		prompts = prompts || split.Batch < p.Rows && !p.LastTokenOnly
		tokens = tokens || split.Single < p.Rows
	}
	return prompts, tokens
}

// describe lists the model's matmuls with their splits: the first offloaded row for
// one token and for many, and the number of tokens that counts as many. Stored
// trials depend on the format.
func (t *trial) describe(matmuls []weights.Matmul) string {
	var words []string
	for _, p := range matmuls {
		split := t.plan.splitOf(p)
		text := fmt.Sprintf("%d %s of %d×%d %v: %d/%d/%d", p.Count, p.Name, p.Rows, p.Cols, p.Type, split.Single, split.Batch, split.MinBatch)
		if n, short := t.plan.capacity[matmulKey(p)]; short {
			text += fmt.Sprintf(" in %d", n)
		}
		words = append(words, text)
	}
	return strings.Join(words, ", ")
}

// compare times passes on the CPU alone and as planned, and saves the result. It
// returns the model as planned, and a nil result if memory does not allow the
// comparison.
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

// timeAlone times passes on the CPU alone and frees the model.
func (t *trial) timeAlone(ctx context.Context, timed timing) (took profiles.PassTimes, err error) {
	model := t.model
	model.Threads = t.threads
	bytes := t.files.TensorBytes()
	if t.makePlan != nil {
		if model.Plan, err = t.makePlan(Outcome{}); err != nil {
			return took, err
		}
		bytes = model.Plan.PinnedBytes()
	}
	room, err := t.model.Budget.Reserve(tiering.Pinned, bytes)
	if err != nil {
		return took, err // before most of the model is loaded in vain
	}
	room.Release() // the weights reserve it piece by piece
	m, err := exec.Load(ctx, t.files, model)
	if err != nil {
		return took, err
	}
	defer m.Close()
	return timePasses(timed, ctx, m)
}

// reportUntried reports why a plan is used without a trial.
func (t *trial) reportUntried(err error) {
	t.report("%s is used without a trial, because memory does not allow one: %v", t.o.Device, err)
}

// loadSplit loads the model with the current splits.
func (t *trial) loadSplit(ctx context.Context) (*exec.Model, error) {
	// A new device: the buffers of the measurements stay attached to the old one
	// until it is closed.
	device, err := devices.All.Open(t.o.Device, devices.Options{Budget: t.model.Budget, Memory: t.o.Memory})
	if err != nil {
		return nil, err
	}
	model := t.model
	if model.Plan = nil; t.makePlan != nil {
		if model.Plan, err = t.makePlan(t.plan.outcome(t.matmuls)); err != nil {
			return nil, errors.Join(err, device.Close())
		}
	}
	model.Split = &exec.Split{Name: t.o.Device, Device: device, RowsOf: t.plan.assign(), Chunk: t.plan.chunk, Grain: hetero.Grain(device.Clock()), Trace: t.o.Trace}
	return exec.Load(ctx, t.files, model)
}

// applyResult moves losing passes back to the CPU.
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
			t.report("%s stay on the CPU: a pass split with %s took %v, on the CPU alone %v", kind.name, t.o.Device, kind.planned.Round(time.Microsecond), kind.alone.Round(time.Microsecond))
		}
	}
}

// applyToAllCores gives the CPU all of its cores if a trial shows that they compute
// whole passes faster.
func (t *trial) applyToAllCores(result *profiles.Trial) {
	planned, alone := answerTime(result.Planned), answerTime(result.Alone)
	if t.plan.losses = t.lossesOf(result); t.plan.losses == (losses{}) {
		return
	}
	t.model.Threads = t.threads
	t.report("%s is not used: a prompt and %d tokens took %v split with it and %v on all cores", t.o.Device, answerTokens, planned.Round(time.Microsecond), alone.Round(time.Microsecond))
}

// report passes a message to Options.Report.
func (t *trial) report(format string, about ...any) {
	if t.o.Report != nil {
		t.o.Report(fmt.Sprintf(format, about...))
	}
}
