// Package archtest tests rules that span packages: the direction of imports, access to files and raw
// memory, and the agreement of the documents with the code.
package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

const modulePath = "github.com/llmrun/llmrun"

// sourceFile is one Go file of the module; internal/clienttests and worker are others. The rules also apply to files for other systems.
type sourceFile struct {
	path    string // relative to the root, with slashes
	pkg     string // directory of the package, "." for the root package
	test    bool
	imports []string
	syntax  *ast.File
	set     *token.FileSet // of syntax
}

// room returns the import path below the module, "." for the root package, and
// false for a package of another module.
func room(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

// skippedDir reports whether a directory contains no source of the project: build output, version
// control, editor state, and the tools module.
func skippedDir(rel string) bool {
	switch rel {
	case "bin", "dist", "tools":
		return true
	}
	base := path.Base(rel)
	return base == "testdata" || (strings.HasPrefix(base, ".") && rel != "." && rel != ".ci")
}

// walkFiles calls visit with every file of the repository outside skipped
// directories.
func walkFiles(t *testing.T, visit func(rel, full string)) {
	t.Helper()
	root := testutil.Root(t)
	err := filepath.WalkDir(root, func(full string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch {
		case entry.IsDir() && skippedDir(rel):
			return fs.SkipDir
		case rel == ".git": // a worktree has a file there, which names the repository
		case entry.Type().IsRegular():
			visit(rel, full)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// parsed is what the first call of goFiles returned. Tests only read it, one after the other.
var parsed []sourceFile

// goFiles parses every Go file of the module, once.
func goFiles(t *testing.T) []sourceFile {
	t.Helper()
	if parsed != nil {
		return parsed
	}
	var files []sourceFile
	fileSet := token.NewFileSet()
	walkFiles(t, func(rel, full string) {
		if !strings.HasSuffix(rel, ".go") || strings.HasPrefix(path.Base(path.Dir(rel)), "_") || below(path.Dir(rel), "internal/clienttests") || below(path.Dir(rel), "worker") {
			return
		}
		syntax, err := parser.ParseFile(fileSet, full, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		file := sourceFile{
			path:   rel,
			pkg:    path.Dir(rel),
			test:   strings.HasSuffix(rel, "_test.go"),
			syntax: syntax,
			set:    fileSet,
		}
		for _, spec := range syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: %v", rel, err)
			}
			file.imports = append(file.imports, imported)
		}
		files = append(files, file)
	})
	if len(files) < 10 {
		t.Fatalf("only %d Go files found: the walk is broken", len(files))
	}
	parsed = files
	return files
}

// below reports whether pkg is the directory dir or below it.
func below(pkg, dir string) bool {
	return pkg == dir || strings.HasPrefix(pkg, dir+"/")
}

// declarations returns the package-level identifiers of a file, and the methods and fields of
// its types, interfaces included, as "Type.member".
func declarations(file *ast.File) map[string]token.Pos {
	names := map[string]token.Pos{}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = d.Pos()
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				declareSpec(names, spec)
			}
		}
	}
	return names
}

func declareSpec(names map[string]token.Pos, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = name.Pos()
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = s.Pos()
		for _, member := range members(s) {
			names[s.Name.Name+"."+member.Name] = member.Pos()
		}
	}
}

// members returns the fields of a struct or the methods of an interface.
func members(spec *ast.TypeSpec) (names []*ast.Ident) {
	var list *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	for _, member := range list.List {
		names = append(names, member.Names...)
	}
	return names
}

// receiver returns the type of a method with a dot behind it, "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	at := d.Recv.List[0].Type
	for {
		switch typ := at.(type) {
		case *ast.StarExpr:
			at = typ.X
		case *ast.IndexExpr:
			at = typ.X
		case *ast.IndexListExpr:
			at = typ.X
		case *ast.Ident:
			return typ.Name + "."
		default:
			return ""
		}
	}
}
