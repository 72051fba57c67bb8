package cli

import (
	"context"
	"errors"
	"fmt"
)

// Exit codes. Scripts depend on them; `llmrun help` lists them.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
	exitSignal  = 128 // plus the signal's number, as shells report a program that a signal ended
)

// Execute runs one command line and returns the exit code.
func (p *Program) Execute(ctx context.Context, s *Streams, args []string) int {
	err := p.Dispatch(ctx, s, args)
	if err == nil {
		// A full disk or a closed pipe shows up only in writes.
		err = s.Out.Failure()
	}
	var usage *UsageError
	var stopped StoppedBy
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &stopped):
		return stopped.ExitCode()
	case errors.As(err, &usage):
		fmt.Fprintf(s.Err, "%s: %s\n%s\n", p.Name, VisibleText(usage.Message), usage.hint())
		return ExitUsage
	}
	fmt.Fprintf(s.Err, "%s: %s\n", p.Name, OneLine(err))
	if p.ExitCode != nil {
		return p.ExitCode(err)
	}
	return ExitFailure
}
