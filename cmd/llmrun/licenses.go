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
		Summary:  "print the licences of the bundled model",
		About:    "Prints where the training text of the bundled model comes from, under which licences, and the attributions they ask for.",
		Examples: []cli.Example{
			{Line: "llmrun licenses", Purpose: "print them"},
			{Line: "llmrun licenses | less", Purpose: "read them"},
			{Line: "llmrun licenses > LICENSES.model.txt", Purpose: "pass them on with the binary"},
		},
		Prepare: func(*cli.FlagSet) cli.Action {
			return func(_ context.Context, s *cli.Streams, args []string) error {
				if err := cli.NoArguments(args); err != nil {
					return err
				}
				text, err := bundled.Licenses()
				fmt.Fprint(s.Out, text)
				return err
			}
		},
	}
}
