// Command llmrun runs language models from GGUF files and Hugging Face
// directories. `llmrun help` is its manual.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Exit codes. Scripts depend on them; `llmrun help` lists them.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // and the signal's number: what a shell reports for a program that one ended
)

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
	var stopped stoppedBy
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &stopped):
		return stopped.exitCode()
	case errors.As(err, &usage):
		fmt.Fprintf(s.err, "llmrun: %s\n%s\n", usage.message, usage.hint())
		return exitUsage
	}
	fmt.Fprintf(s.err, "llmrun: %s\n", oneLine(err))
	return exitFailure
}
