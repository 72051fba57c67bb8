package deviceplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/internal/bench"
)

// checkRepeats is the number of chains in a check, which takes the shortest.
const checkRepeats = 7

// planner builds a plan.
type planner struct {
	o       *Options
	lab     *deviceLab
	profile *profiles.File
	matmuls []weights.Matmul
	plan    *DevicePlan
	heldOut []hetero.Op // matmuls for checking predictions

	predictor *solve.Predictor // nil with real execution
	solver    *solve.Solver    // nil with real execution: each matmul has its own
	done      int              // of the steps of progress
	steps     int
}

// PlanDevices plans each matmul of a model from saved measurements, and measures what is missing.
// It saves new measurements even if it is interrupted.
func PlanDevices(ctx context.Context, o Options) (_ *DevicePlan, err error) {
	p := &planner{o: &o, plan: &DevicePlan{Machine: bench.ThisMachine(), Model: o.Model.Name(), Mode: "prediction", Quota: o.Quota}}
	if p.matmuls, err = o.Model.matmuls(); err != nil {
		return nil, err
	}
	o.Tokens = append([]int{1}, o.Tokens...) // the output head computes one token of any prompt
	slices.Sort(o.Tokens)
	o.Tokens = slices.Compact(o.Tokens)
	ops := opsFor(p.matmuls, o.Tokens)
	if len(ops) == 0 {
		return nil, fmt.Errorf("%w: the model has no matmul to plan", ErrDevices)
	}
	if o.Check {
		p.heldOut = heldOutOps(ops, Samples(ops))
	}
	if p.lab, err = OpenLab(o.Devices, paddedOps(append(p.heldOut, ops...))); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.lab.Close()) }()
	p.restore(ops)
	p.lab.Profiler.Before = func() error {
		p.advance()
		return ctx.Err()
	}
	err = p.make(ctx, ops)
	p.profile.Update(p.lab.Profiler, p.lab.keys())
	p.profile.SaveOrReport(o.Dir, o.Notify)
	return p.plan, err
}

// restore loads saved measurements, unless all are repeated.
func (p *planner) restore(ops []hetero.Op) {
	notice := ""
	p.profile, notice = profiles.Load(p.o.Dir)
	switch {
	case p.o.Remeasure:
		var shapes []solve.Shape
		for _, op := range ops {
			shapes = append(shapes, solve.ShapeOf(op))
		}
		p.profile.Invalidate(p.lab.keys(), shapes)
	case notice == "":
		notice = p.profile.Restore(p.lab.Profiler, p.lab.keys())
	}
	if notice != "" && p.o.Notify != nil {
		p.o.Notify(notice)
	}
}

// advance reports one more measurement.
func (p *planner) advance() {
	p.done++
	if p.o.Running != nil {
		p.o.Running(int64(p.done), int64(max(p.done, p.steps)))
	}
}

// make measures and fills in the plan.
func (p *planner) make(ctx context.Context, ops []hetero.Op) error {
	list := Samples(ops)
	p.steps = len(list) * len(p.lab.devices)
	if p.o.Check {
		p.steps += len(p.heldOut)*len(p.lab.devices) + len(ops)
	}
	if p.o.Real {
		p.plan.Mode = "real execution"
	} else {
		p.predictor = solve.NewPredictor(p.lab.Profiler, list)
		p.solver = p.newSolver(p.predictor, solve.DefaultSteps)
	}
	for _, m := range p.matmuls {
		for _, tokens := range p.o.Tokens {
			if m.LastTokenOnly && tokens > 1 {
				continue
			}
			if err := p.planMatmul(ctx, m, tokens); err != nil {
				return err
			}
		}
	}
	for d, device := range p.lab.devices {
		p.plan.Devices = append(p.plan.Devices, PlannedDevice{p.lab.Names[d], device.Capabilities().Name, Microseconds(p.lab.Profiler.Start(d))})
		if p.predictor != nil && len(p.heldOut) > 0 {
			mean, largest := p.predictor.Error(d, p.heldOut)
			p.plan.Predictions = append(p.plan.Predictions, PredictionError{p.lab.Names[d], len(p.heldOut), mean, largest})
		}
	}
	p.plan.Copy = Microseconds(p.lab.Profiler.Copy())
	p.plan.Measured = p.lab.Profiler.Runs
	p.addPasses()
	return p.lab.Profiler.Err
}

func (p *planner) newSolver(costs solve.Costs, steps solve.Steps) *solve.Solver {
	s := p.lab.Solver(costs, steps)
	s.Quota = p.o.Quota
	return s
}

// heldOutOps returns matmuls between the samples: with three eighths of the rows, and a quarter
// more tokens.
func heldOutOps(ops, samples []hetero.Op) (list []hetero.Op) {
	step := solve.DefaultSteps.Rows
	for _, op := range ops {
		op.Rows = min(op.Rows, max(step, op.Rows*3/8/step*step))
		if op.Tokens > 1 {
			op.Tokens += op.Tokens / 4
		}
		known := func(o hetero.Op) bool { return sameShape(o, op) }
		if !slices.ContainsFunc(samples, known) && !slices.ContainsFunc(list, known) {
			list = append(list, op)
		}
	}
	return list
}

// paddedOps returns operations with as many tokens as any split pads them to.
func paddedOps(ops []hetero.Op) []hetero.Op {
	list := slices.Clone(ops)
	for i := range list {
		list[i].Tokens = solve.DefaultSteps.PaddedTokens(list[i].Tokens)
	}
	return list
}

// planMatmul plans one matmul for a number of tokens.
func (p *planner) planMatmul(ctx context.Context, m weights.Matmul, tokens int) error {
	op := opOf(m, tokens)
	solver := p.solver
	if p.o.Real {
		solver = p.newSolver(p.lab.Profiler, coarse(op))
	}
	split := solver.Solve(op)
	if err := p.lab.Profiler.Err; err != nil {
		return err
	}
	if len(split.Pieces) == 0 {
		return fmt.Errorf("%w: no split of %s for %d tokens is allowed", ErrDevices, m.Name, tokens)
	}
	row := PlannedMatmul{
		Name: m.Name, Count: m.Count, Tokens: tokens, Rows: m.Rows, Cols: m.Cols, Type: m.Type.String(),
		Permuted: split.Streamed,
	}
	singles := make([]solve.Split, len(p.lab.devices))
	for d := range singles {
		singles[d] = p.bestAlone(op, d, solver)
		row.Alone = append(row.Alone, Microseconds(singles[d].Time))
	}
	var err error
	if split, row.Checked, err = p.check(ctx, op, split, singles); err != nil {
		return err
	}
	row.Cut, row.Pieces, row.First, row.Predicted = split.Cut.String(), SpellPieces(&split, p.lab.Names), firstFraction(&split), Microseconds(split.Time)
	p.plan.Matmuls = append(p.plan.Matmuls, row)
	return nil
}

// bestAlone returns the best split that uses one device. A device that accepts only prepared
// numbers of tokens pads the matmul, or computes it in several pieces.
func (p *planner) bestAlone(op hetero.Op, device int, solver *solve.Solver) solve.Split {
	only := p.lab.Solver(solver.Costs, solver.Steps)
	only.Allow = func(s *solve.Split) bool {
		return !slices.ContainsFunc(s.Pieces, func(piece solve.Piece) bool { return piece.Device != device })
	}
	return only.Solve(op)
}

// check compares a split with each device alone, by saved or new measurements. If one device alone
// is faster, it gets the whole matmul.
func (p *planner) check(ctx context.Context, op hetero.Op, split solve.Split, singles []solve.Split) (solve.Split, *CheckedSplit, error) {
	if len(split.Pieces) == 1 {
		if p.o.Check {
			p.advance()
		}
		return split, nil, nil
	}
	pair := p.lab.keys()
	shape := solve.ShapeOf(op)
	known := p.profile.Check(pair, shape, &split)
	if known == nil {
		if !p.o.Check {
			return split, nil, nil
		}
		took, err := p.lab.timeForChoice(ctx, op, checkRepeats, append(singles, split)...)
		if err != nil {
			return split, nil, err
		}
		known = p.profile.AddCheck(pair, profiles.Check{Shape: shape, Pieces: split.Pieces, Split: took[2], Alone: took[:2]})
	}
	if p.o.Check {
		p.advance()
	}
	c := &CheckedSplit{Split: Microseconds(known.Split), Kept: known.Split <= slices.Min(known.Alone)}
	for _, t := range known.Alone {
		c.Alone = append(c.Alone, Microseconds(t))
	}
	if !c.Kept {
		split = singles[slices.Index(known.Alone, slices.Min(known.Alone))]
	}
	return split, c, nil
}

// firstFraction returns the first device's fraction of the work.
func firstFraction(s *solve.Split) float64 {
	own, all := 0.0, 0.0
	for _, p := range s.Pieces {
		work := float64(p.Tokens) * float64(p.Rows)
		if all += work; p.Device == 0 {
			own += work
		}
	}
	return own / all
}

// addPasses adds the sums over the matmuls of each pass.
func (p *planner) addPasses() {
	for _, tokens := range p.o.Tokens {
		pass := PlannedPass{Tokens: tokens, Alone: make([]Time, len(p.lab.devices))}
		work := 0.0
		for _, row := range p.plan.Matmuls {
			last := row.Tokens == 1 && tokens > 1 && p.oneToken(row.Name)
			if row.Tokens != tokens && !last {
				continue
			}
			pass.Predicted += Time(row.Count) * row.Predicted
			for d, t := range row.Alone {
				pass.Alone[d] += Time(row.Count) * t
			}
			w := float64(row.Count) * float64(row.Tokens) * float64(row.Rows) * float64(row.Cols)
			work += w
			pass.First += w * row.First
		}
		pass.First /= work
		p.plan.Passes = append(p.plan.Passes, pass)
	}
}

// oneToken reports whether only the last token of a prompt needs a matrix.
func (p *planner) oneToken(name string) bool {
	return slices.ContainsFunc(p.matmuls, func(q weights.Matmul) bool { return q.Name == name && q.LastTokenOnly })
}

// speed returns tokens per second.
func (p *PlannedPass) speed(t Time) float64 {
	return float64(p.Tokens) / (time.Duration(float64(t)*1e3) * time.Nanosecond).Seconds()
}
