package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

var (
	makeVariable  = regexp.MustCompile(`(?m)^([A-Z_]+)\s*[?:]?=\s*(.*)$`)
	makeReference = regexp.MustCompile(`\$\(([A-Z_]+)\)`)
	// selectedTests is a call of testreport that names tests: its pattern and its packages.
	selectedTests = regexp.MustCompile(`internal/testreport [^&\n]*-run (?:'([^']+)'|(\S+))([^&\n]*)`)
)

// TestMakefileSelectsTests fails when a pattern of the Makefile matches no test. The target would
// succeed, and the target would check nothing.
func TestMakefileSelectsTests(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testutil.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	variables := map[string]string{}
	for _, v := range makeVariable.FindAllStringSubmatch(text, -1) {
		variables[v[1]] = v[2]
	}
	text = makeReference.ReplaceAllStringFunc(text, func(reference string) string {
		return variables[strings.Trim(reference, "$()")]
	})
	tests := testsByPackage(t)
	calls := selectedTests.FindAllStringSubmatch(text, -1)
	if len(calls) < 3 {
		t.Fatalf("only %d calls of testreport with -run found in the Makefile: the search is broken", len(calls))
	}
	for _, call := range calls {
		if strings.HasPrefix(call[1]+call[2], "^") {
			continue // a prefix: the measured tests
		}
		for _, part := range strings.Split(call[1]+call[2], "|") {
			if packages := strings.Fields(call[3]); !matchesTest(part, packages, tests) {
				t.Errorf("Makefile: -run %s matches no test in %s", part, packages)
			}
		}
	}
}

// matchesTest reports whether a test of the packages has a name that contains part.
func matchesTest(part string, packages []string, tests map[string][]string) bool {
	contains := func(name string) bool { return strings.Contains(name, part) }
	return slices.ContainsFunc(packages, func(pkg string) bool {
		return slices.ContainsFunc(tests[path.Clean(pkg)], contains)
	})
}

// testsByPackage returns the names of all tests.
func testsByPackage(t *testing.T) map[string][]string {
	tests := map[string][]string{}
	for _, file := range goFiles(t) {
		for name := range declarations(file.syntax) {
			if file.test && strings.HasPrefix(name, "Test") {
				tests[file.pkg] = append(tests[file.pkg], name)
			}
		}
	}
	return tests
}
