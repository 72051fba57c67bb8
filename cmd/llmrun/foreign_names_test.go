package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
)

// TestForeignNamesMapToOurNames checks that llmrun does not use a listed name of other engines
// itself, and that every suggested flag exists.
func TestForeignNamesMapToOurNames(t *testing.T) {
	flags := cli.NewFlagSet()
	runCommand().Prepare(flags)
	for theirs, ours := range cli.ForeignFlags {
		require.Nil(t, flags.Registry.Lookup(theirs), theirs)
		require.NotNil(t, flags.Registry.Lookup(ours), "%s for %s", ours, theirs)
	}
	for name := range commandHints {
		require.Nil(t, llmrunProgram().Find(name), name)
	}
}

// TestForeignNamesSuggestOurNames checks the errors for flags and commands of other engines.
func TestForeignNamesSuggestOurNames(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"run", "--n-predict", "5"}, "there is no flag --n-predict; here it is -n"},
		{[]string{"run", "-c", "512"}, "there is no flag -c; here it is --ctx"},
		{[]string{"inspect", "-c", "512"}, "there is no flag -c"}, // inspect has no --ctx
		{[]string{"run", "-i"}, "there is no flag -i"},            // single letters get no suggestion
		{[]string{"server"}, `there is no command "server": llmrun serve answers HTTP requests`},
		{[]string{"run", "llama", "Why?"}, `unexpected argument "llama": the prompt is -p TEXT, and the model -m PATH`},
		{[]string{"chat", "llama"}, `unexpected argument "llama": the model is -m PATH`},
		{[]string{"inspect", "llama"}, `unexpected argument "llama": the model is -m PATH`},
		{[]string{"version", "llama"}, `unexpected argument "llama"`},
	}
	for _, test := range tests {
		err := llmrunProgram().Dispatch(t.Context(), cli.SystemStreams(), test.args)
		var usage *cli.UsageError
		require.ErrorAs(t, err, &usage)
		require.Equal(t, test.want, usage.Message)
	}
}
