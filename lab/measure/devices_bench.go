package measure

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/solve"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/deviceplan"
	"github.com/llmrun/llmrun/quant"
)

// DevicesOptions configure BenchDevices.
type DevicesOptions struct {
	// Pair names two groups of the processor's cores; nil = the groups of this machine. The second
	// group is slowed down by each factor in Slow.
	Pair    []string
	Slow    []int
	Rows    int
	Cols    int
	Tokens  []int
	Repeats int
	Running func(done, total int64) // may be nil
}

// DevicesReport holds the gain of splits and the cost of waits on this machine.
type DevicesReport struct {
	Machine bench.Machine `json:"machine"`
	Rows    int           `json:"rows"`
	Cols    int           `json:"cols"`
	Weights string        `json:"weights"`
	Pair    []string      `json:"pair,omitempty"`
	Balance []BalanceRow  `json:"balance"`
	Sync    []SyncRow     `json:"sync"`
}

// BalanceRow compares splits of a matmul between two groups of cores. Times are those of one
// matmul in the shortest of several chains, which took turns.
type BalanceRow struct {
	Slow      int                `json:"slow"` // factor by which the second group is slower
	Tokens    int                `json:"tokens"`
	Alone     [2]deviceplan.Time `json:"alone_us"`
	Uniform   deviceplan.Time    `json:"uniform_us"`  // halves
	Balanced  deviceplan.Time    `json:"balanced_us"` // the solver's split
	Predicted deviceplan.Time    `json:"predicted_us"`
	Cut       string             `json:"cut"`
	Pieces    []string           `json:"pieces"`
	Gain      float64            `json:"gain"`     // of the balanced over the uniform split
	Expected  float64            `json:"expected"` // for equal groups, one of them slower
}

// SyncRow is the cost of waiting for the end of a matmul.
type SyncRow struct {
	Device string          `json:"device"`
	Tokens int             `json:"tokens"`
	Queued deviceplan.Time `json:"queued_us"` // without waits between matmuls
	Wait   deviceplan.Time `json:"wait_us"`   // with the driver's wait after each matmul
	Poll   deviceplan.Time `json:"poll_us"`   // with a sleep until shortly before the end, then polling
}

// benchWeights is the type of the weights.
const benchWeights = quant.Q4_0

// BenchDevices compares a uniform and a balanced split of one matmul between two groups of cores,
// and two ways to wait on every device.
func BenchDevices(ctx context.Context, o DevicesOptions) (*DevicesReport, error) {
	list := deviceplan.Devices()
	r := &DevicesReport{Machine: bench.ThisMachine(), Rows: o.Rows, Cols: o.Cols, Weights: benchWeights.String(), Pair: o.Pair}
	if r.Pair == nil {
		r.Pair = deviceplan.Groups(list)
	}
	steps, done := len(o.Slow)*len(o.Tokens)+len(list.Devices)*len(o.Tokens), 0
	step := func() {
		if done++; o.Running != nil {
			o.Running(int64(done), int64(steps))
		}
	}
	for _, slow := range o.Slow {
		if len(r.Pair) == 0 {
			break // the machine has one core
		}
		rows, err := o.balance(ctx, r.Pair, slow, step)
		if err != nil {
			return nil, err
		}
		r.Balance = append(r.Balance, rows...)
	}
	for _, name := range list.Names() {
		rows, err := o.sync(ctx, name, step)
		if err != nil {
			return nil, err
		}
		r.Sync = append(r.Sync, rows...)
	}
	return r, nil
}

// ops returns the timed matmuls.
func (o *DevicesOptions) ops() (list []hetero.Op) {
	for _, n := range o.Tokens {
		list = append(list, hetero.Op{Tokens: n, Rows: o.Rows, Cols: o.Cols, Type: benchWeights, Streamed: true})
	}
	return list
}

// balance compares splits for one slowdown.
func (o *DevicesOptions) balance(ctx context.Context, pair []string, slow int, step func()) (rows []BalanceRow, err error) {
	ops := o.ops()
	l, err := deviceplan.OpenLab([]string{pair[0], fmt.Sprintf("%s/%d", pair[1], slow)}, ops)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, l.Close()) }()
	solver := l.Solver(solve.NewPredictor(l.Profiler, deviceplan.Samples(ops)), solve.DefaultSteps)
	for _, op := range ops {
		balanced := solver.Solve(op)
		if l.Profiler.Err != nil {
			return nil, l.Profiler.Err
		}
		half := o.Rows / 2
		uniform := solve.Split{Cut: solve.Row, Streamed: op.Streamed, Pieces: []solve.Piece{
			{Device: 0, Tokens: op.Tokens, Padded: op.Tokens, Rows: half},
			{Device: 1, Tokens: op.Tokens, Padded: op.Tokens, Row: half, Rows: o.Rows - half},
		}}
		took, err := l.Time(ctx, op, o.Repeats, deviceplan.Alone(op, 0), deviceplan.Alone(op, 1), uniform, balanced)
		if err != nil {
			return nil, err
		}
		rows = append(rows, BalanceRow{
			Slow: slow, Tokens: op.Tokens,
			Alone:   [2]deviceplan.Time{deviceplan.Microseconds(took[0]), deviceplan.Microseconds(took[1])},
			Uniform: deviceplan.Microseconds(took[2]), Balanced: deviceplan.Microseconds(took[3]), Predicted: deviceplan.Microseconds(balanced.Time),
			Cut: balanced.Cut.String(), Pieces: deviceplan.SpellPieces(&balanced, l.Names),
			Gain: took[2].Seconds() / took[3].Seconds(), Expected: float64(slow+1) / 2,
		})
		step()
	}
	return rows, nil
}

// sync times waiting on one device.
func (o *DevicesOptions) sync(ctx context.Context, name string, step func()) (rows []SyncRow, err error) {
	ops := o.ops()
	l, err := deviceplan.OpenLab([]string{name}, ops)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, l.Close()) }()
	for _, op := range ops {
		took, err := l.TimeWaits(ctx, op, o.Repeats)
		if err != nil {
			return nil, err
		}
		rows = append(rows, SyncRow{
			Device: name, Tokens: op.Tokens,
			Queued: deviceplan.Microseconds(took[deviceplan.Queued]), Wait: deviceplan.Microseconds(took[deviceplan.Waited]), Poll: deviceplan.Microseconds(took[deviceplan.Polled]),
		})
		step()
	}
	return rows, nil
}

// WriteTables writes the report in Markdown.
func (r *DevicesReport) WriteTables(w io.Writer) {
	fmt.Fprintf(w, "Microseconds of one matmul of %d rows and %d columns in %s, in the shortest chain of %d matmuls. %s/%s, %s kernels.\n",
		r.Rows, r.Cols, r.Weights, deviceplan.Chain, r.Machine.OS, r.Machine.Arch, r.Machine.Kernels)
	if len(r.Balance) > 0 {
		fmt.Fprintf(w, "\n| %s slower | tokens | %s alone | %s alone | halves | balanced | predicted | gain | expected |\n|---|---|---|---|---|---|---|---|---|\n", r.Pair[1], r.Pair[0], r.Pair[1])
		for _, b := range r.Balance {
			fmt.Fprintf(w, "| %d× | %d | %.0f | %.0f | %.0f | %.0f | %.0f | %.2f× | %.2f× |\n",
				b.Slow, b.Tokens, b.Alone[0], b.Alone[1], b.Uniform, b.Balanced, b.Predicted, b.Gain, b.Expected)
		}
	}
	fmt.Fprintf(w, "\n| device | tokens | no wait | driver's wait | sleep, then poll | a wait costs | a poll costs |\n|---|---|---|---|---|---|---|\n")
	for _, s := range r.Sync {
		fmt.Fprintf(w, "| %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n", s.Device, s.Tokens, s.Queued, s.Wait, s.Poll, s.Wait-s.Queued, s.Poll-s.Queued)
	}
}
