package archtest

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

// Limits of sizes, so that a newcomer can read the code. Generated files do not count.
const (
	maxFileLines       = 350
	maxForwardFiles    = 59 // source files of package exec
	maxFunctionLines   = 20 // of 9 functions in 10 of package exec
	maxFields          = 25
	maxMethods         = 40
	maxRoomPartPercent = 25 // of the lines of all packages
)

// forwardPass is the package of the forward pass.
const forwardPass = "exec"

// lines returns the number of lines of a file.
func lines(t *testing.T, file *sourceFile) int {
	data, err := os.ReadFile(filepath.Join(testutil.Root(t), file.path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

func TestFilesAreShort(t *testing.T) {
	for _, file := range goFiles(t) {
		if n := lines(t, &file); n > maxFileLines && !file.test && !ast.IsGenerated(file.syntax) {
			t.Errorf("%s has %d lines, more than %d", file.path, n, maxFileLines)
		}
	}
}

// TestPackagesAreBalanced checks that no top-level directory holds more than its part of the lines.
func TestPackagesAreBalanced(t *testing.T) {
	rooms, total := map[string]int{}, 0
	for _, file := range goFiles(t) {
		if file.test || ast.IsGenerated(file.syntax) {
			continue
		}
		n := lines(t, &file)
		top, _, _ := strings.Cut(file.pkg, "/")
		rooms[top] += n
		total += n
	}
	for name, n := range rooms {
		t.Logf("%s: %d lines, %d %%", name, n, 100*n/total)
		if 100*n > maxRoomPartPercent*total {
			t.Errorf("%s holds %d of %d lines, more than %d %%", name, n, total, maxRoomPartPercent)
		}
	}
}

// TestForwardPassIsReadable checks the limits of functions and types in package exec.
func TestForwardPassIsReadable(t *testing.T) {
	var lengths []int
	files := 0
	methods := map[string]int{}
	for _, file := range goFiles(t) {
		if file.pkg != forwardPass || file.test {
			continue
		}
		files++
		for _, decl := range file.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				lengths = append(lengths, file.set.Position(d.End()).Line-file.set.Position(d.Pos()).Line+1)
				if d.Recv != nil {
					name, _, _ := strings.Cut(receiver(d), ".")
					methods[name]++
				}
			case *ast.GenDecl:
				checkFields(t, d)
			}
		}
	}
	if files > maxForwardFiles {
		t.Errorf("package %s has %d source files, more than %d", forwardPass, files, maxForwardFiles)
	}
	slices.Sort(lengths)
	if p90 := lengths[len(lengths)*9/10]; p90 > maxFunctionLines {
		t.Errorf("one in ten functions of %s has %d lines or more; it may have %d", forwardPass, p90, maxFunctionLines)
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s.%s has %d methods, more than %d", path.Base(forwardPass), name, n, maxMethods)
		}
	}
}

// checkFields refuses a struct with too many fields.
func checkFields(t *testing.T, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if s, ok := named.Type.(*ast.StructType); ok && s.Fields.NumFields() > maxFields {
			t.Errorf("%s.%s has %d fields, more than %d", path.Base(forwardPass), named.Name.Name, s.Fields.NumFields(), maxFields)
		}
	}
}
