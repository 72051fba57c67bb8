package archtest

import (
	"bufio"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

// retiredName is an identifier that a package declared before the project adopted the
// words of docs/glossary.md. The same identifier may be a good name in another package.
type retiredName struct {
	// name is "identifier" or "Type.member". An identifier also retires methods and fields
	// of that name, whatever their type.
	pkg, name   string
	replacement string
}

// retiredNames reads testdata/retired.txt.
func retiredNames(t *testing.T) (list []retiredName) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "retired.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines, n := bufio.NewScanner(file), 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pkg, rest, _ := strings.Cut(line, " ")
		name, replacement, ok := strings.Cut(rest, " ")
		if !ok {
			t.Fatalf("testdata/retired.txt:%d: %q is not: package identifier replacement", n, line)
		}
		list = append(list, retiredName{pkg, name, replacement})
	}
	return list
}

// retiredDirs are former directories of packages, with their successors.
var retiredDirs = map[string]string{
	"exec/token":          "text/token",
	"exec/token/template": "text/jinja",
	"exec/sample":         "text/sample",
	"exec/gpu":            "exec/gpupass",
	"exec/divide":         "exec/split",
	"kv/chunk":            "kv/segment",
	"hetero/papers":       "lab/papers",
	"hetero/sim":          "lab/sim",
	"hetero/schedule":     "lab/schedule",
	"cmd/llmrun/measure":  "lab/measure",
}

// TestRetiredNamesStayRetired refuses declarations of retired names and retired packages.
func TestRetiredNamesStayRetired(t *testing.T) {
	declared := map[string]map[string]string{} // package, name: position
	for _, file := range goFiles(t) {
		if successor, retired := retiredDirs[file.pkg]; retired {
			t.Errorf("%s: the package %s is now %s", file.path, file.pkg, successor)
		}
		if declared[file.pkg] == nil {
			declared[file.pkg] = map[string]string{}
		}
		for name, at := range declarations(file.syntax) {
			position := file.set.Position(at)
			addDeclared(declared[file.pkg], name, fmt.Sprintf("%s:%d", file.path, position.Line))
		}
	}
	list := retiredNames(t)
	for _, fault := range findRetired(list, declared) {
		t.Error(fault)
	}
	for _, r := range list {
		if declared[r.pkg] == nil {
			t.Errorf("testdata/retired.txt names the package %s, which does not exist", r.pkg)
		}
	}
}

// addDeclared records a declaration by its name and, for a member, also without its type.
func addDeclared(names map[string]string, name, at string) {
	names[name] = at
	if _, member, ok := strings.Cut(name, "."); ok {
		names[member] = at
	}
}

// findRetired returns a sentence for each retired name that is declared.
func findRetired(list []retiredName, declared map[string]map[string]string) (faults []string) {
	for _, r := range list {
		if at, found := declared[r.pkg][r.name]; found {
			faults = append(faults, fmt.Sprintf("%s declares %s; the glossary's name is %s", at, r.name, r.replacement))
		}
	}
	slices.Sort(faults)
	return faults
}

// TestRetiredNamesAreFound checks that the search finds each kind of declaration.
func TestRetiredNamesAreFound(t *testing.T) {
	source := `package old
type shadow struct { away, kept int }
func settle() {}
func (s *shadow) foresee() {}
var lots, joint = 1, 2
const narrow = 3
func (s *better) Feed(hint int) {}
type Network interface { TakeLayer() }
func shares() { picker := 1; _ = picker }`
	file, err := parser.ParseFile(token.NewFileSet(), "old.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]map[string]string{"old": {}, "new": {}}
	for name := range declarations(file) {
		addDeclared(declared["old"], name, name)
	}
	var list []retiredName
	found := []string{"shadow", "shadow.away", "shadow.kept", "settle", "shadow.foresee", "lots", "joint", "narrow", "kept", "Feed", "Network.TakeLayer"}
	for _, name := range append(found, "picker", "hint") {
		list = append(list, retiredName{"old", name, "better"}, retiredName{"new", name, "better"})
	}
	if faults := findRetired(list, declared); len(faults) != len(found) {
		t.Errorf("%d of %d retired names found: %q", len(faults), len(found), faults)
	}
}

// TestRetiredListIsInOrder checks that the list is long, sorted by package and identifier, and free
// of duplicates.
func TestRetiredListIsInOrder(t *testing.T) {
	list := retiredNames(t)
	if len(list) < 250 {
		t.Errorf("only %d names are retired: the list is not complete", len(list))
	}
	key := func(r retiredName) string { return r.pkg + " " + r.name }
	if !slices.IsSortedFunc(list, func(a, b retiredName) int { return strings.Compare(key(a), key(b)) }) {
		t.Error("testdata/retired.txt is not sorted by package and identifier")
	}
	for i := 1; i < len(list); i++ {
		if key(list[i]) == key(list[i-1]) {
			t.Errorf("testdata/retired.txt lists %s twice", key(list[i]))
		}
	}
	for dir := range retiredDirs {
		if _, err := os.Stat(filepath.Join(testutil.Root(t), dir)); err == nil {
			t.Errorf("%s is back; it is now %s", dir, retiredDirs[dir])
		}
	}
}
