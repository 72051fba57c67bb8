package main

import (
	"context"
	"fmt"
	"io"
	"os"
)

// measured runs a measurement with a progress bar, until Ctrl-C. running is where its
// options have whom they tell of progress.
func measured[R any](ctx context.Context, s *streams, amount func(int64) string, running *func(done, total int64), measure func(context.Context) (R, error)) (R, error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	bar := newMeter(s, "measuring", amount)
	defer bar.finish()
	*running = bar.update
	report, err := measure(ctx)
	if err != nil {
		return report, interruption(ctx, err)
	}
	return report, nil
}

// A drawing is a picture of a report, for the file of that name if there is one.
type drawing struct {
	file  string
	write func(io.Writer) error
}

// showing declares --json and returns the action of a command without arguments that
// prints what find returns.
func showing[R any](f *flagSet, find func() R, write func(R, io.Writer)) action {
	asJSON := false
	f.group("Output")
	f.toggle(&asJSON, "json", "print one JSON object")
	return func(_ context.Context, s *streams, args []string) error {
		if err := noArguments(args); err != nil {
			return err
		}
		found := find()
		return present(s, asJSON, found, func(w io.Writer) { write(found, w) })
	}
}

// present draws what was measured and prints it: as one JSON object, or as the
// tables that write makes of it.
func present(s *streams, asJSON bool, report any, write func(io.Writer), drawings ...drawing) error {
	for _, d := range drawings {
		if err := d.draw(); err != nil {
			return err
		}
	}
	if asJSON {
		return s.out.json(report)
	}
	write(s.out)
	return nil
}

func (d drawing) draw() error {
	if d.file == "" {
		return nil
	}
	file, err := os.Create(d.file)
	if err != nil {
		return fmt.Errorf("drawing: %w", err)
	}
	if err := d.write(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
