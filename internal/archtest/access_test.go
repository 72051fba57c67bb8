package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"testing"
)

// unsafeAllowed lists the packages that may convert pointers: those that hold
// kernels, those that own memory or mappings outside Go's heap, and those that
// call libraries of drivers.
var unsafeAllowed = []string{"quant", "tiering", "store/vfs", "hetero/onnx", "hetero/opencl"}

// filesAllowed lists the packages that may open files of the operating system by name. All other
// packages use store/vfs, which injects faults and adds paths and offsets to errors. The command
// reads prompts and writes transcripts; tiering and hetero read the memory and the processors of
// the system; the generator of kernels writes source files.
var filesAllowed = []string{"store/vfs", "cmd", "internal", "quant/internal", "tiering", "hetero"}

// fileFunctions are the functions that open, change or list files by name, by import path.
var fileFunctions = map[string][]string{
	"os": {
		"Chdir", "Chmod", "Chown", "Chtimes", "CopyFS", "Create", "CreateTemp", "DirFS", "Lchown", "Link",
		"Lstat", "Mkdir", "MkdirAll", "MkdirTemp", "NewFile", "Open", "OpenFile", "OpenInRoot", "OpenRoot",
		"ReadDir", "ReadFile", "Readlink", "Remove", "RemoveAll", "Rename", "Stat", "Symlink", "Truncate",
		"WriteFile",
	},
	"path/filepath":         {"EvalSymlinks", "Glob", "Walk", "WalkDir"},
	"syscall":               {"Mmap", "Open", "Openat"},
	"golang.org/x/sys/unix": {"Mmap", "MmapPtr", "Open", "Openat"},
}

// within reports whether pkg lies in one of the directories.
func within(pkg string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return below(pkg, dir) })
}

func TestNoCgo(t *testing.T) {
	for _, file := range goFiles(t) {
		if slices.Contains(file.imports, "C") {
			t.Errorf("%s uses cgo: the engine builds without a C compiler", file.path)
		}
	}
}

func TestUnsafeStaysWhereItIsListed(t *testing.T) {
	for _, file := range goFiles(t) {
		if slices.Contains(file.imports, "unsafe") && !within(file.pkg, unsafeAllowed) {
			t.Errorf("%s imports unsafe; allowed in %v", file.path, unsafeAllowed)
		}
	}
}

func TestFilesAreOpenedThroughVFS(t *testing.T) {
	for _, file := range goFiles(t) {
		if file.test || within(file.pkg, filesAllowed) {
			continue
		}
		for _, call := range fileCalls(file) {
			t.Errorf("%s calls %s: use store/vfs", file.path, call)
		}
		if slices.Contains(file.imports, "github.com/edsrzf/mmap-go") {
			t.Errorf("%s maps files itself: use store/vfs", file.path)
		}
	}
}

// TestFileCallsAreSeen checks that the search finds the calls in the package that contains them.
func TestFileCallsAreSeen(t *testing.T) {
	for _, file := range goFiles(t) {
		if below(file.pkg, "store/vfs") && !file.test && len(fileCalls(file)) > 0 {
			return
		}
	}
	t.Error("no file call found in store/vfs, which has to make some")
}

// fileCalls lists the uses of file functions in one file.
func fileCalls(file sourceFile) []string {
	// The names of packages are those of the imports of this file.
	local := map[string]string{}
	for _, spec := range file.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // impossible: the parser has accepted the path
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		local[name] = imported
	}
	var calls []string
	ast.Inspect(file.syntax, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := selector.X.(*ast.Ident)
		if ok && slices.Contains(fileFunctions[local[pkg.Name]], selector.Sel.Name) {
			calls = append(calls, pkg.Name+"."+selector.Sel.Name)
		}
		return true
	})
	return calls
}
