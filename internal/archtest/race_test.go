package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

var racePackages = regexp.MustCompile(`(?m)^RACE_PACKAGES\s*\?=\s*(.*)$`)

// raceElsewhere lists packages with goroutines whose tests do not run under the race detector as
// a whole, with the reason.
var raceElsewhere = map[string]string{
	"exec": "arithmetic is too slow there; RACE_EXEC selects its tests of threads and cancellation",
	".":    "most of its tests run one session at a time; RACE_LIBRARY selects the others",

	"cmd/llmrun":          "most of its tests run one session at a time; RACE_COMMAND selects the others",
	"internal/testreport": "its goroutine only receives signals",
}

// TestRaceDetectorCoversGoroutines checks that the Makefile runs every package that starts
// goroutines under the race detector.
func TestRaceDetectorCoversGoroutines(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testutil.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	list := racePackages.FindSubmatch(data)
	if list == nil {
		t.Fatal("the Makefile has no RACE_PACKAGES")
	}
	patterns := strings.Fields(string(list[1]))
	packages := startersOfGoroutines(t)
	if len(packages) < 8 {
		t.Fatalf("only %d packages start goroutines: the search is broken", len(packages))
	}
	for pkg, where := range packages {
		if _, known := raceElsewhere[pkg]; known {
			continue
		}
		if !slices.ContainsFunc(patterns, func(p string) bool { return matchesPackage(p, pkg) }) {
			t.Errorf("%s starts a goroutine, and RACE_PACKAGES of the Makefile does not list %s", where, pkg)
		}
	}
}

// matchesPackage reports whether a pattern of the go command matches a package of the module.
func matchesPackage(pattern, pkg string) bool {
	pattern = strings.TrimPrefix(pattern, "./")
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return below(pkg, tree)
	}
	return pkg == pattern
}

// startersOfGoroutines returns the packages whose programs start goroutines, each with a file
// that does.
func startersOfGoroutines(t *testing.T) map[string]string {
	found := map[string]string{}
	for _, file := range goFiles(t) {
		if file.test || found[file.pkg] != "" {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if startsGoroutine(n) {
				found[file.pkg] = file.path
			}
			return true
		})
	}
	return found
}

// startsGoroutine reports whether a node is a go statement or a call of WaitGroup.Go.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		return ok && method.Sel.Name == "Go" && len(n.Args) == 1
	}
	return false
}
