package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/llmrun/llmrun/internal/cli"
)

func manCommand() *cli.Command {
	return &cli.Command{
		Name:     "man",
		Synopsis: "[COMMAND] [-o DIR]",
		Summary:  "print or write manual pages",
		About: `Prints the manual page of a command, or of llmrun, for man(1): what the help says, with all flags.

-o writes the pages of llmrun and of all commands into a directory, as llmrun.1, llmrun-run.1 and so on, replaces older ones, and prints their names. man finds them in man1 below a directory of MANPATH.`,
		Examples: []cli.Example{
			{Line: "llmrun man run | man -l -", Purpose: "read a page"},
			{Line: "llmrun man -o ~/.local/share/man/man1", Purpose: "install all, so that man llmrun-run finds its page"},
			{Line: "llmrun man plan > llmrun-plan.1", Purpose: "one page as a file"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			m := &manFlags{}
			f.Group("Output")
			f.Text(&m.out, "o output", "DIR", "write all pages into DIR")
			return m.run
		},
	}
}

// manFlags are the flags of man.
type manFlags struct {
	out string // directory; "": standard output
}

func (m *manFlags) run(_ context.Context, s *cli.Streams, args []string) error {
	program := llmrunProgram()
	switch {
	case len(args) > 1:
		return cli.Usagef("unexpected argument %q", args[1])
	case m.out != "" && len(args) > 0:
		return cli.Usagef("-o writes the pages of all commands: leave out %q", args[0])
	case m.out == "":
		page, err := program.ManualPage(append(args, "")[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(s.Out, page)
		return err
	}
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	pages := program.ManualPages()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		path := filepath.Join(m.out, name)
		if err := os.WriteFile(path, []byte(pages[name]), 0o644); err != nil {
			return fmt.Errorf("-o: %w", err)
		}
		fmt.Fprintln(cli.Visible(s.Out), path)
	}
	return nil
}
