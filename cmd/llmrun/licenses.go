package main

import (
	"context"
	"fmt"

	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/cli"
)

func licensesCommand() *cli.Command {
	return &cli.Command{
		Name:     "licenses",
		Synopsis: "",
		Summary:  "print the licences of the bundled demo model",
		About:    "Prints the sources of the bundled demo model's training text, their licences, and the required attributions.",
		Examples: []cli.Example{
			{Line: "llmrun licenses", Purpose: "print them"},
			{Line: "llmrun licenses | less", Purpose: "read them"},
			{Line: "llmrun licenses > LICENSES.model.txt", Purpose: "write them to a file that goes with the binary"},
		},
		Prepare: func(*cli.FlagSet) cli.Action {
			return func(_ context.Context, s *cli.Streams, args []string) error {
				if err := cli.NoArguments(args); err != nil {
					return err
				}
				_, err := fmt.Fprint(s.Out, bundled.Licenses())
				return err
			}
		},
	}
}
