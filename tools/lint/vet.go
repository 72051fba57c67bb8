package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// vet runs the analyzers of go vet for the system and the processor that the
// environment names. go vet compiles all dependencies first, the standard library
// included, once for each system and processor. vet only reads them and determines their
// types, which takes a small part of the time, and then analyzes them like go vet, which
// needs to know, for example, which of their functions wrap Printf.
func vet(to io.Writer, args []string) (findings int, err error) {
	flags := flag.NewFlagSet("lint vet", flag.ContinueOnError)
	tags := flags.String("tags", "", "build `tags`, separated by commas")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	const metadata = packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps |
		packages.NeedModule | packages.NeedTypesSizes
	loaded, err := packages.Load(&packages.Config{
		Mode: metadata, Tests: true, BuildFlags: []string{"-tags=" + *tags},
	}, flags.Args()...)
	if err != nil {
		return 0, err
	}
	// The main package of a test binary is generated.
	loaded = slices.DeleteFunc(loaded, func(p *packages.Package) bool { return strings.HasSuffix(p.ID, ".test") })
	if len(loaded) == 0 {
		return 0, errors.New("no packages match")
	}
	if err := typecheck(loaded); err != nil {
		return 0, err
	}
	graph, err := checker.Analyze(vetAnalyzers, loaded, nil)
	if err != nil {
		return 0, err
	}
	return report(to, graph)
}

// report prints every finding once, though a file belongs to a package and to the
// package with its tests, and tells how many there are.
func report(to io.Writer, graph *checker.Graph) (int, error) {
	var lines []string
	for _, act := range graph.Roots {
		if act.Err != nil {
			return 0, fmt.Errorf("%s: %w", act, act.Err)
		}
		for _, d := range act.Diagnostics {
			at := act.Package.Fset.Position(d.Pos)
			if here, err := os.Getwd(); err == nil {
				if name, err := filepath.Rel(here, at.Filename); err == nil {
					at.Filename = name
				}
			}
			lines = append(lines, fmt.Sprintf("%s: %s (%s)\n", at, d.Message, act.Analyzer.Name))
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	for _, line := range lines {
		if _, err := io.WriteString(to, line); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}

// typecheck gives types to packages and to all that they import. A package waits for
// those that it imports; at most as many as there are processors run at a time.
func typecheck(loaded []*packages.Package) error {
	fset := token.NewFileSet()
	done := map[*packages.Package]chan struct{}{}
	var all []*packages.Package
	for p := range packages.Postorder(loaded) {
		done[p] = make(chan struct{})
		all = append(all, p)
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	failed := make([]error, len(all))
	for i, p := range all {
		group.Go(func() {
			defer close(done[p])
			for _, imported := range p.Imports {
				<-done[imported]
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			failed[i] = check(fset, p)
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// check gives types to one package. It fails where the package has a mistake, and leaves
// it without types where an import has none.
func check(fset *token.FileSet, p *packages.Package) error {
	p.Fset = fset
	p.TypesInfo = newInfo()
	if p.PkgPath == "unsafe" {
		p.Types = types.Unsafe
		return nil
	}
	for _, e := range p.Errors {
		return e
	}
	for _, name := range p.GoFiles {
		// Several analyzers use the objects that the parser resolves.
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		p.Syntax = append(p.Syntax, f)
	}
	imports := importer{}
	for path, imported := range p.Imports {
		if imported.Types == nil {
			return nil // The error of that package says enough.
		}
		imports[path] = imported.Types
	}
	config := types.Config{Importer: imports, Sizes: p.TypesSizes}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	checked, err := config.Check(p.PkgPath, fset, p.Syntax, p.TypesInfo)
	if err != nil {
		return err
	}
	p.Types = checked
	return nil
}

// newInfo returns an empty record of everything that the type checker can tell.
func newInfo() *types.Info {
	return &types.Info{
		Types:        map[ast.Expr]types.TypeAndValue{},
		Instances:    map[*ast.Ident]types.Instance{},
		Defs:         map[*ast.Ident]types.Object{},
		Uses:         map[*ast.Ident]types.Object{},
		Implicits:    map[ast.Node]types.Object{},
		Selections:   map[*ast.SelectorExpr]*types.Selection{},
		Scopes:       map[ast.Node]*types.Scope{},
		FileVersions: map[*ast.File]string{},
	}
}

// importer finds the types of imports that were checked before.
type importer map[string]*types.Package

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	p, ok := i[path]
	if !ok {
		return nil, fmt.Errorf("no package %s", path)
	}
	return p, nil
}
