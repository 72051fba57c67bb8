package modelflag

import (
	"context"
	"io"
	"io/fs"
	"slices"

	"github.com/llmrun/llmrun/internal/cli"
)

// A Measurement is a command that measures one model and reports the result R.
type Measurement[R any] struct {
	Model  *Source
	Amount func(int64) string // formats the progress of Target.Running
	Check  func() error       // refuses flags that contradict each other; may be nil
	Run    func(context.Context, Target) (R, error)
	Write  func(R, io.Writer)           // prints a report as tables
	Draw   func(report R) []cli.Drawing // returns the pictures of a report; may be nil
}

// A Target is the model that a measurement opens, with the callbacks of its progress bars.
type Target struct {
	Path string
	FS   fs.FS // file system of Path; nil = the operating system's
	// Loading receives the progress in bytes, and Running the progress of the measurement. The
	// first call of Running ends the bar of Loading.
	Loading, Running func(done, total int64)
	Notify           func(text string) // prints a note on standard error
}

// Action declares --json and returns the action of the command, which takes no arguments.
func (m Measurement[R]) Action(f *cli.FlagSet) cli.Action {
	asJSON := AddJSON(f)
	return func(ctx context.Context, s *cli.Streams, args []string) error {
		if err := cli.NoArguments(args); err != nil {
			return err
		}
		return m.Present(ctx, s, *asJSON)
	}
}

// AddJSON declares --json.
func AddJSON(f *cli.FlagSet) *bool {
	asJSON := false
	f.Group("Output")
	f.Toggle(&asJSON, "json", "print one JSON object instead of tables")
	return &asJSON
}

// Present measures and prints the report.
func (m Measurement[R]) Present(ctx context.Context, s *cli.Streams, asJSON bool) error {
	if m.Check != nil {
		if err := m.Check(); err != nil {
			return err
		}
	}
	if err := m.Model.check(); err != nil {
		return err
	}
	report, err := m.measure(ctx, s)
	if err != nil {
		return err
	}
	var drawings []cli.Drawing
	if m.Draw != nil {
		drawings = m.Draw(report)
	}
	return cli.Present(s, asJSON, report, func(w io.Writer) { m.Write(report, w) }, drawings...)
}

// measure runs the measurement with progress bars, until Ctrl-C. It removes the model of a shape
// afterwards.
func (m Measurement[R]) measure(ctx context.Context, s *cli.Streams) (report R, err error) {
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	path, fsys, remove, err := m.Model.find(ctx, s)
	if err != nil {
		return report, err
	}
	defer remove()
	loading, running := cli.NewMeter(s, "loading", cli.FormatBytes), cli.NewMeter(s, "measuring", m.Amount)
	defer loading.Finish()
	defer running.Finish()
	report, err = m.Run(ctx, Target{
		Path: path, FS: fsys, Notify: s.Note,
		Loading: loading.Update,
		Running: func(done, total int64) {
			loading.Finish()
			running.Update(done, total)
		},
	})
	if err != nil {
		return report, cli.Interruption(ctx, err)
	}
	return report, nil
}

// CheckLengths removes the lengths of 0 from --pp and --tg and refuses a measurement without any
// other length.
func CheckLengths(prefill, decode *[]int) error {
	*prefill, *decode = positive(*prefill), positive(*decode)
	if len(*prefill)+len(*decode) == 0 {
		return cli.Usagef("--pp and --tg are both 0: nothing is left to measure")
	}
	return nil
}

// positive returns the numbers above 0.
func positive(list []int) []int {
	return slices.DeleteFunc(slices.Clone(list), func(n int) bool { return n <= 0 })
}
