package main

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/internal/cli"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:     "completion",
		Synopsis: "bash|zsh|fish|powershell",
		Summary:  "print a script that completes command lines",
		About:    `Prints the script with which a shell completes the commands and flags of llmrun, and the values of flags that have few.`,
		Examples: []cli.Example{
			{Line: "llmrun completion bash > ~/.local/share/bash-completion/completions/llmrun", Purpose: "for new shells"},
			{Line: "source <(llmrun completion bash)", Purpose: "for this one"},
			{Line: "llmrun completion fish > ~/.config/fish/completions/llmrun.fish", Purpose: "for fish"},
			{Line: "llmrun completion powershell | Out-String | Invoke-Expression", Purpose: "in a profile of PowerShell"},
		},
		Prepare: func(*cli.FlagSet) cli.Action {
			return func(_ context.Context, s *cli.Streams, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("give one shell: %s", cli.Either(cli.Shells))
				}
				script, err := llmrunProgram().Completion(args[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprint(s.Out, script)
				return err
			}
		},
	}
}
