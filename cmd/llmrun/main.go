// Command llmrun runs language models from GGUF files and Hugging Face
// directories. `llmrun help` is its manual.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hub"
	"github.com/llmrun/llmrun/internal/cli"
)

func main() {
	termuxFiles(os.Getenv, func(path string) bool { _, err := os.Stat(path); return err == nil }).use()
	os.Exit(llmrunProgram().Execute(context.Background(), cli.SystemStreams(), os.Args[1:]))
}

// overviewIntro begins the help.
const overviewIntro = `llmrun runs language models on this machine: GGUF files and Hugging Face
directories, in less memory than they have. Without -m a command uses ` + defaultModelRemark + `

  llmrun chat                    talk to ` + defaultModel + `
  llmrun pull hf:Qwen/Qwen2.5-1.5B-Instruct-GGUF && llmrun models
                                 download another one, and see its name for -m

Usage: llmrun COMMAND [flags]`

const overviewEnd = `"llmrun help COMMAND" shows the flags of a command, and "llmrun config" those that
are set for all of them.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused for memory, 4 a file is
damaged or malformed, 130 Ctrl-C, 143 SIGTERM. Results go to standard output; timings,
progress and errors to standard error.`

// llmrunProgram returns the program with all of its commands.
func llmrunProgram() *cli.Program {
	return &cli.Program{
		Name: "llmrun", Intro: overviewIntro, End: overviewEnd, Version: fmt.Sprint(thisVersion()), Hints: commandHints,
		Complete: nameDefaultModel, Explain: explainOptions, ExitCode: exitCode, Settings: programSettings(),
		Groups: commandGroups(),
	}
}

// exitCode returns the exit code that scripts see for an error.
func exitCode(err error) int {
	switch {
	case errors.Is(err, llmrun.ErrOptions):
		return cli.ExitUsage
	case errors.Is(err, llmrun.ErrBudget):
		return exitBudget
	case errors.Is(err, llmrun.ErrFormat), errors.Is(err, llmrun.ErrModel), errors.Is(err, hub.ErrDigest):
		return exitDamaged
	}
	return cli.ExitFailure
}

// Exit codes of llmrun, in addition to those of package cli.
const (
	exitBudget  = 3 // refused: the memory budget is too small
	exitDamaged = 4 // a file is damaged or malformed
)

// commandGroups returns every command, in the order of the help.
func commandGroups() []cli.CommandGroup {
	return []cli.CommandGroup{
		{Title: "Generate text", Commands: []*cli.Command{runCommand(), chatCommand(), summarizeCommand(), serveCommand(), sessionsCommand(), jobsCommand()}},
		{Title: "Describe texts", Commands: []*cli.Command{embedCommand(), rankCommand()}},
		{Title: "Search notes", Commands: []*cli.Command{indexCommand(), searchCommand()}},
		{Title: "Inspect models and devices", Commands: []*cli.Command{
			inspectCommand(), planCommand(), tokenizeCommand(), detokenizeCommand(), renderCommand(), devicesCommand(), profileCommand(),
		}},
		{Title: "Get and import models", Commands: []*cli.Command{pullCommand(), modelsCommand(), importCommand(), bundleCommand(), calibrateCommand(), verifyCommand(), cacheCommand()}},
		{Title: "Measure", Commands: []*cli.Command{logitsCommand(), perplexityCommand(), benchCommand(), synthCommand()}},
		{Title: "About", Commands: []*cli.Command{doctorCommand(), configCommand(), completionCommand(), manCommand(), versionCommand(), licensesCommand()}},
	}
}
