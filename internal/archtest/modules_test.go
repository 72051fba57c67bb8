package archtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

// modulesOfTests are the modules that only tests use. docs/decisions/2026-11-29-packages-of-tests.md says why each
// stays.
var modulesOfTests = []string{"github.com/stretchr/testify", "github.com/rogpeppe/go-internal"}

// helpsTests reports whether a package is one that only tests import.
func helpsTests(pkg string) bool {
	return below(pkg, "internal/testutil") || below(pkg, "internal/modeltest") || below(pkg, "internal/cli/clitest")
}

// TestRequiredModulesServeThePrograms checks that code of the library or of a program imports every module that
// go.mod requires, except modulesOfTests, which none of it imports.
func TestRequiredModulesServeThePrograms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testutil.Root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	required := requiredModules(string(text))
	if len(required) < 5 {
		t.Fatalf("only %d modules found in go.mod: %v", len(required), required)
	}
	users := map[string]string{}
	for _, file := range goFiles(t) {
		if file.test || helpsTests(file.pkg) {
			continue
		}
		for _, imported := range file.imports {
			for _, module := range required {
				if below(imported, module) {
					users[module] = file.path
				}
			}
		}
	}
	for _, module := range required {
		switch user, ofTests := users[module], slices.Contains(modulesOfTests, module); {
		case user == "" && !ofTests:
			t.Errorf("go.mod requires %s, and no program uses it", module)
		case user != "" && ofTests:
			t.Errorf("%s uses %s, which is one of the modules of tests", user, module)
		}
	}
	for _, module := range modulesOfTests {
		if !slices.Contains(required, module) {
			t.Errorf("go.mod no longer requires %s", module)
		}
	}
}

// requiredModules returns the modules that a go.mod requires itself.
func requiredModules(text string) (modules []string) {
	inside := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			inside = true
		case line == ")":
			inside = false
		case inside && !strings.HasSuffix(line, "// indirect"):
			module, _, _ := strings.Cut(line, " ")
			modules = append(modules, module)
		}
	}
	return modules
}
