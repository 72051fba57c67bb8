// Command llmrun runs language models from GGUF files and Hugging Face
// directories. `llmrun help` is its manual.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

// Exit codes. Scripts depend on them; `llmrun help` lists them.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130 // what a shell reports for a program ended by Ctrl-C
)

// errInterrupted ends a command that stopped because of Ctrl-C. What was
// printed until then stands.
var errInterrupted = errors.New("interrupted")

func main() {
	os.Exit(execute(context.Background(), systemStreams(), os.Args[1:]))
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, s *streams, args []string) int {
	err := dispatch(ctx, s, args)
	if err == nil {
		// A full disk or a closed file shows itself only when writing.
		err = s.out.failure()
	}
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(s.err, "llmrun: %s\n%s\n", usage.message, usage.hint())
		return exitUsage
	}
	fmt.Fprintf(s.err, "llmrun: %s\n", oneLine(err))
	return exitFailure
}

// interruptible returns a context that the first Ctrl-C cancels. After that the
// signal has its usual effect again, so a second Ctrl-C ends a program that
// does not come to a stop.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// interruption returns errInterrupted in place of whatever a cancelled
// operation said, and err itself when nothing was cancelled.
func interruption(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}
