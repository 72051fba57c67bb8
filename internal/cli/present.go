package cli

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Measure runs a measurement with a progress bar, until Ctrl-C. running points to the progress
// callback in the measurement's options.
func Measure[R any](ctx context.Context, s *Streams, amount func(int64) string, running *func(done, total int64), measure func(context.Context) (R, error)) (R, error) {
	ctx, stop := Interruptible(ctx)
	defer stop()
	bar := NewMeter(s, "measuring", amount)
	defer bar.Finish()
	*running = bar.Update
	report, err := measure(ctx)
	if err != nil {
		return report, Interruption(ctx, err)
	}
	return report, nil
}

// A Drawing is a picture of a report. Write writes it to File; an empty File draws nothing.
type Drawing struct {
	File  string
	Write func(io.Writer) error
}

// ShowAction declares --json and returns the action of a command without arguments, which prints
// the result of find.
func ShowAction[R any](f *FlagSet, find func() R, write func(R, io.Writer)) Action {
	asJSON := false
	f.Group("Output")
	f.Toggle(&asJSON, "json", "print one JSON object")
	return func(_ context.Context, s *Streams, args []string) error {
		if err := NoArguments(args); err != nil {
			return err
		}
		found := find()
		return Present(s, asJSON, found, func(w io.Writer) { write(found, w) })
	}
}

// Present writes the drawings of a report and prints the report: as one JSON object, or with
// write.
func Present(s *Streams, asJSON bool, report any, write func(io.Writer), drawings ...Drawing) error {
	for _, d := range drawings {
		if err := d.draw(); err != nil {
			return err
		}
	}
	if asJSON {
		return s.Out.WriteJSON(report)
	}
	write(Visible(s.Out))
	return nil
}

func (d Drawing) draw() error {
	if d.File == "" {
		return nil
	}
	file, err := os.Create(d.File)
	if err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	if err := d.Write(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
