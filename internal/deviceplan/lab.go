package deviceplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// realRepeats is how often a profiler measures a matmul on a real device.
	realRepeats = 5
	// Chain is the number of consecutive matmuls in a timed chain. Each has its own weights, as in
	// a model.
	Chain = 8
)

var (
	// ErrDevices reports devices that cannot be measured in this combination.
	ErrDevices = errors.New("no plan for these devices")
	// ErrUnknown reports a name that no device has.
	ErrUnknown = devices.ErrUnknown
)

// deviceLab holds one or two open devices and their measurements.
type deviceLab struct {
	Names    []string
	devices  []hetero.Device
	budget   *tiering.Budget
	operands *solve.Operands
	Profiler *solve.Profiler
	grain    time.Duration // see hetero.Grain
}

// OpenLab opens devices for matmuls up to the sizes of ops.
func OpenLab(names []string, ops []hetero.Op) (l *deviceLab, err error) {
	if len(names) < 1 || len(names) > 2 {
		return nil, fmt.Errorf("%w: give one or two, not %d", ErrDevices, len(names))
	}
	names = slices.Clone(names)
	for i := range names {
		if names[i], err = devices.All.Resolve(names[i]); err != nil {
			return nil, err
		}
	}
	if len(names) == 2 && names[0] == names[1] {
		return nil, fmt.Errorf("%w: %q is named twice", ErrDevices, names[0])
	}
	l = &deviceLab{Names: names, budget: tiering.New(0), grain: hetero.Grain(hetero.Wall())}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	for _, name := range names {
		d, err := devices.All.Open(name, devices.Options{Budget: l.budget})
		if err != nil {
			return l, err
		}
		l.devices = append(l.devices, d)
	}
	if len(names) == 2 && l.devices[0].Capabilities().Static {
		return l, fmt.Errorf("%w: %s accepts only prepared numbers of tokens: name a device before it that accepts any number", ErrDevices, names[0])
	}
	if l.operands, err = solve.NewOperands(l.budget, l.devices, ops, solve.ColdBytes); err != nil {
		return l, err
	}
	l.Profiler = solve.NewProfiler(l.devices, l.operands.For)
	l.Profiler.Repeats, l.Profiler.Weights = realRepeats, ops[0].Type
	return l, nil
}

// keys returns the keys of the devices in a profile.
func (l *deviceLab) keys() profiles.Keys { return profiles.KeysOf(l.Names, l.devices) }

func (l *deviceLab) Close() error { return l.operands.CloseAfter(l.devices) }

// coarse enlarges the steps between the cuts of a matmul, to a few multiples of HeteroLLM's steps,
// so that every piece can be measured.
func coarse(op hetero.Op) solve.Steps {
	const mostRows, mostTokens = 12, 4
	steps := solve.DefaultSteps
	upTo := func(step, whole, most int) int { return step * max(1, (whole+step*most-1)/(step*most)) }
	steps.Rows = upTo(steps.Rows, op.Rows, mostRows)
	steps.Tokens = upTo(steps.Tokens, op.Tokens, mostTokens)
	return steps
}

// Samples returns the matmuls that predictions are learned from: those with all rows, and with a
// half, a quarter and an eighth of them.
func Samples(ops []hetero.Op) (list []hetero.Op) {
	for _, op := range ops {
		whole := op.Rows
		for parts := 1; parts <= 8; parts *= 2 {
			step := solve.DefaultSteps.Rows
			op.Rows = min(whole, (whole/parts+step-1)/step*step)
			if !slices.ContainsFunc(list, func(o hetero.Op) bool { return sameShape(o, op) }) {
				list = append(list, op)
			}
		}
	}
	return list
}

// Solver returns a solver for the lab's devices.
func (l *deviceLab) Solver(costs solve.Costs, steps solve.Steps) *solve.Solver {
	last := l.devices[len(l.devices)-1]
	return &solve.Solver{
		Costs: costs, Steps: steps, Copy: l.Profiler.Copy(),
		Static: last.Capabilities().Static, Single: len(l.devices) == 1,
	}
}

// Alone returns the split that gives the whole matmul to one device.
func Alone(op hetero.Op, device int) solve.Split {
	return solve.Split{Pieces: []solve.Piece{{Device: device, Tokens: op.Tokens, Padded: op.Tokens, Rows: op.Rows}}, Streamed: op.Streamed}
}

// Time returns the time of a matmul for each split, as the shortest of several chains. Chains of
// different splits take turns.
func (l *deviceLab) Time(ctx context.Context, op hetero.Op, repeats int, splits ...solve.Split) ([]time.Duration, error) {
	return l.timeChains(ctx, op, Chain, repeats, nil, splits)
}

// chainTime is a chain long enough that its start and end matter little.
const chainTime = 100 * time.Millisecond

// timeForChoice is Time for choosing the best split: it spends less time on slow splits.
func (l *deviceLab) timeForChoice(ctx context.Context, op hetero.Op, repeats int, splits ...solve.Split) ([]time.Duration, error) {
	predicted := splits[0].Time
	for _, s := range splits {
		predicted = max(1, min(predicted, s.Time))
	}
	length := min(Chain, max(2, int(chainTime/predicted)))
	d := &earlyStop{clock: l.devices[0].Clock()}
	return l.timeChains(ctx, op, length, repeats, d.continues, splits)
}

// earlyStop limits the time of measurements: it stops measuring a split that is clearly slower
// than the best, and all splits after a time limit.
type earlyStop struct {
	clock        hetero.Clock
	begin, spent time.Duration
}

func (d *earlyStop) continues(thing, round int, least []time.Duration) bool {
	const (
		long   = 2 * time.Second
		slower = 1.5 // times the best: clearly slower
		rounds = 2   // in which all splits are measured
	)
	switch {
	case round == 0 && thing == 0:
		d.begin = d.clock.Now()
	case thing == 0: // once a round, so that all splits are measured equally often
		d.spent = d.clock.Now() - d.begin
	}
	return round <= rounds || d.spent < long && float64(least[thing]) <= slower*float64(slices.Min(least))
}

func (l *deviceLab) timeChains(ctx context.Context, op hetero.Op, length, repeats int, again continueFunc, splits []solve.Split) ([]time.Duration, error) {
	runs := make([]chainRun, len(splits))
	for i := range splits {
		runs[i] = chainRun{lab: l, op: op, split: &splits[i], length: length}
		defer func() { _ = runs[i].exec.Close() }()
		if err := runs[i].prepare(true); err != nil {
			return nil, err
		}
	}
	measured := func(i int) (time.Duration, error) { return runs[i].run() }
	return shortestInTurns(ctx, len(runs), repeats, again, measured)
}

// continueFunc reports whether a thing is measured in a round. least holds the shortest times so
// far. Round 0 warms up and measures nothing.
type continueFunc func(thing, round int, least []time.Duration) bool

// shortestInTurns measures things in turns, once to warm up and then repeats times, unless again
// stops earlier. It returns the shortest times, like a Profiler: other load on the machine makes
// times longer, never shorter.
func shortestInTurns(ctx context.Context, things, repeats int, again continueFunc, measured func(thing int) (time.Duration, error)) ([]time.Duration, error) {
	least := make([]time.Duration, things)
	for n := range repeats + 1 {
		for i := range things {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if again != nil && !again(i, n, least) {
				continue
			}
			t, err := measured(i)
			if err != nil {
				return nil, err
			}
			if n <= 1 || t < least[i] {
				least[i] = t
			}
		}
	}
	return least, nil
}

// Ways to wait between consecutive matmuls of a device.
const (
	Queued = iota // no wait: the next matmul is queued behind
	Waited        // the driver's wait
	Polled        // sleep until shortly before the predicted end, then poll
	ways
)

// TimeWaits returns the time of a matmul of device 0 with each way of waiting.
func (l *deviceLab) TimeWaits(ctx context.Context, op hetero.Op, repeats int) ([]time.Duration, error) {
	split := Alone(op, 0)
	r := chainRun{lab: l, op: op, split: &split, length: Chain}
	defer func() { _ = r.exec.Close() }()
	if err := r.prepare(false); err != nil {
		return nil, err
	}
	clock := l.devices[0].Clock()
	return shortestInTurns(ctx, ways, repeats, nil, func(way int) (time.Duration, error) {
		r.exec.Fast = way == Polled
		begin := clock.Now()
		for i := range Chain {
			done, err := r.exec.Submit(r.names[i%len(r.names)], op, &split, r.x, r.y, nil)
			if err != nil {
				return 0, err
			}
			if way == Queued && i < Chain-1 {
				continue
			}
			if err := r.exec.Await(done[0]); err != nil {
				return 0, err
			}
		}
		return (clock.Now() - begin) / Chain, nil
	})
}

// chainRun is a chain of matmuls with one split.
type chainRun struct {
	lab    *deviceLab
	op     hetero.Op
	split  *solve.Split
	length int // matmuls in the chain
	exec   solve.Executor
	x, y   hetero.View
	names  []string // of the matmuls
}

func (r *chainRun) prepare(fast bool) error {
	r.exec = solve.Executor{Costs: r.lab.Profiler, Grain: r.lab.grain, Fast: fast}
	copy(r.exec.Devices[:], r.lab.devices)
	others := 1
	for i := 0; i < min(others, r.length); i++ {
		op := r.op
		r.x, r.y, others = r.lab.operands.For(0, &op, i)
		name := fmt.Sprint(i)
		if err := r.exec.Prepare(name, op, r.split); err != nil {
			return err
		}
		r.names = append(r.names, name)
	}
	for _, p := range r.split.Pieces { // measure now, because run must not
		op := r.op
		op.Streamed = r.split.Streamed
		r.exec.Costs.Time(p.Device, p.Op(op))
		r.exec.Costs.Start(p.Device)
	}
	return r.lab.Profiler.Err
}

// run returns the time of one matmul of the chain. As in a model, device 0 waits for each matmul
// before it continues with other operations.
func (r *chainRun) run() (time.Duration, error) {
	clock := r.lab.devices[0].Clock()
	begin := clock.Now()
	var pending []solve.Pending
	for i := range r.length {
		done, err := r.exec.Submit(r.names[i%len(r.names)], r.op, r.split, r.x, r.y, pending)
		if err != nil {
			return 0, err
		}
		if err := r.exec.Before(0, nil, done); err != nil {
			return 0, err
		}
		pending = pending[:0]
		for _, p := range done {
			if p.Device == 0 {
				pending = append(pending, p)
			}
		}
	}
	for _, p := range pending {
		if err := r.exec.Await(p); err != nil {
			return 0, err
		}
	}
	return (clock.Now() - begin) / time.Duration(r.length), nil
}
