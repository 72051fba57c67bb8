// Command llmworker summarizes documents on several machines, which share the work over NATS JetStream. Each result
// has the same bytes as that of `llmrun summarize` on one machine.
package main

import (
	"context"
	"os"

	"github.com/llmrun/llmrun/internal/cli"
)

func main() {
	os.Exit(program().Execute(context.Background(), cli.SystemStreams(), os.Args[1:]))
}

const intro = `llmworker summarizes documents on several machines, which share the work over
NATS JetStream.

Usage: llmworker COMMAND [flags]`

const end = `"llmworker help COMMAND" shows the flags of a command.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C, 143 SIGTERM.`

func program() *cli.Program {
	return &cli.Program{
		Name: "llmworker", Intro: intro, End: end, Version: "llmworker",
		Groups: []cli.CommandGroup{{Title: "Summarize documents", Commands: []*cli.Command{submitCommand(), workCommand(), resultsCommand()}}},
	}
}
