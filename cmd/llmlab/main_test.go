package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/cli/clitest"
	"github.com/llmrun/llmrun/internal/testutil"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"llmlab": main}) }

// TestScripts runs the command lines in testdata/script: what is printed, where, and with
// which exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"status": testutil.ScriptStatus},
	})
}

// Every command can be prepared and explains itself, with at least three examples.
func TestEveryCommandTeaches(t *testing.T) {
	for _, name := range program().Names() {
		t.Run(name, func(t *testing.T) {
			c := program().Find(name)
			require.NotNil(t, c.Prepare(cli.NewFlagSet()))
			require.NotEmpty(t, c.Summary)
			require.GreaterOrEqual(t, len(c.Examples), 3)
			for _, e := range c.Examples {
				require.Contains(t, e.Line, "llmlab "+name)
			}
		})
	}
}

// Every flag of every command refuses bad values, or takes any text. --shape, --ram, --with,
// --device and --fractions are checked after parsing.
func TestUsageErrorsCoverEveryFlag(t *testing.T) {
	texts := []string{"cache-dir", "device", "f", "file", "fractions", "m", "model", "notes", "ram", "ratios", "results", "shape", "svg", "with"}
	clitest.CheckFlags(t, program(), texts, func(string, string) bool { return false })
}
