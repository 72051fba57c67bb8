package archtest

import (
	"flag"
	"fmt"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

var update = flag.Bool("update", false, "write the generated table of docs/architecture.md instead of comparing with it")

const architecturePage = "docs/architecture.md"

// The generated table is between these lines of the page.
const (
	tableBegin = "<!-- generated: go test ./internal/archtest -run TestArchitectureTable -update -->\n"
	tableEnd   = "<!-- end of the generated table -->\n"
)

// importTable renders the rules of this package as a Markdown table, bottom row first.
func importTable() string {
	var b strings.Builder
	b.WriteString("| package | other modules |\n|---|---|\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "| %s | %s |\n", codeList(r.dir), codeList(r.external...))
	}
	return b.String()
}

// codeList writes names as code. The root package is called llmrun.
func codeList(names ...string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		if name == "." {
			name = "llmrun (root)"
		}
		quoted[i] = "`" + name + "`"
	}
	return strings.Join(quoted, " ")
}

// readPage returns a document of the repository.
func readPage(t *testing.T, rel string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(testutil.Root(t), rel))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestArchitectureTable(t *testing.T) {
	page := readPage(t, architecturePage)
	before, rest, found := strings.Cut(page, tableBegin)
	old, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no lines %q and %q", architecturePage, tableBegin, tableEnd)
	}
	table := importTable()
	if old == table {
		return
	}
	if !*update {
		t.Fatalf("the table of imports in %s is stale; run: go test ./internal/archtest -run TestArchitectureTable -update", architecturePage)
	}
	page = before + tableBegin + table + tableEnd + after
	if err := os.WriteFile(filepath.Join(testutil.Root(t), architecturePage), []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sourceLink is a name in code style that links to a Go file: [`name`](../file.go).
var sourceLink = regexp.MustCompile("\\[`([^`]+)`\\]\\(([^)]+\\.go)\\)")

// TestArchitectureNamesFunctions fails when a function or type that the page links
// to is not declared in the linked file.
func TestArchitectureNamesFunctions(t *testing.T) {
	declared := map[string]map[string]token.Pos{}
	for _, file := range goFiles(t) {
		declared[file.path] = declarations(file.syntax)
	}
	page := readPage(t, architecturePage)
	links := sourceLink.FindAllStringSubmatch(page, -1)
	if len(links) < 30 {
		t.Fatalf("%s names %d functions; the walks are missing", architecturePage, len(links))
	}
	for _, link := range links {
		name, file := link[1], path.Join(path.Dir(architecturePage), link[2])
		names, ok := declared[file]
		switch {
		case !ok:
			t.Errorf("%s links `%s` to %s, which does not exist", architecturePage, name, file)
		case !names[name].IsValid() && name != path.Base(file):
			t.Errorf("%s says that %s declares `%s`, and it does not", architecturePage, file, name)
		}
	}
}
