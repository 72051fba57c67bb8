// Lint reports what staticcheck and a few further analyzers find in packages. It
// prints one finding a line, as file:line:column: message (check), and exits with
// status 1 if there are any. A comment silences one check on the line below it, and
// must give a reason:
//
//	//lint:ignore CHECK reason
//
// A directive that silences nothing is itself a finding.
//
// With vet as its first argument, it runs the analyzers of go vet instead. See vet.
//
// usage: lint [flags] packages
//
//	lint vet [-tags TAGS] packages
package main

import (
	"fmt"
	"os"

	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// checks selects the checks of staticcheck. Names of number formats keep their
// established spelling, as in Q4_K (ST1003). Comments say what matters, and not always
// the name first (ST1020 to ST1022).
const checks = "all,-ST1003,-ST1020,-ST1021,-ST1022"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "vet" {
		findings, err := vet(os.Stdout, os.Args[2:])
		if err != nil {
			fmt.Fprintln(os.Stderr, "lint:", err)
			os.Exit(2)
		}
		if findings > 0 {
			os.Exit(1)
		}
		return
	}
	cmd := lintcmd.NewCommand("lint")
	if err := cmd.FlagSet().Set("checks", checks); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(2)
	}
	cmd.ParseFlags(os.Args[1:])
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	cmd.AddBareAnalyzers(analyzers()...)
	cmd.Run()
}
