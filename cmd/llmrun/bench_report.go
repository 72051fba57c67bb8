package main

import (
	"fmt"
	"io"
	"os"
)

// A drawing is a picture of a report, for the file of that name if there is one.
type drawing struct {
	file  string
	write func(io.Writer) error
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
