package main

import (
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"strings"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/golangci/unconvert"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/gostaticanalysis/nilerr"
	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
)

// ignoredErrors are functions whose errors need no check.
var ignoredErrors = []string{
	// Output for a person; a broken pipe ends the program anyway.
	"fmt.Fprint",
	"fmt.Fprintf",
	"fmt.Fprintln",
	"io.WriteString",
	"(*golang.org/x/term.Terminal).SetSize",
	"golang.org/x/term.Restore",
	// A buffered writer reports the first failure at Flush.
	"(*bufio.Writer).Write",
	"(*bufio.Writer).WriteByte",
	"(*bufio.Writer).WriteString",
	// These remember the first error for whoever asks at the end.
	"(*github.com/llmrun/llmrun/store/gguf.reader).fail",
	"(*github.com/llmrun/llmrun/store/gguf.reader).setError",
}

// analyzers are the checks that staticcheck does not have.
func analyzers() []*analysis.Analyzer {
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols, ignoredErrors...)
	return []*analysis.Analyzer{
		{Name: "errcheck", Doc: errcheck.Analyzer.Doc, Run: unchecked},
		withObjects(errorlint.NewAnalyzer()),
		withObjects(ineffassign.Analyzer),
		nilerr.Analyzer,
		{Name: "unconvert", Doc: "finds conversions to the type that a value has", Run: unneeded},
	}
}

// unchecked reports errors that are dropped, except in tests, which clean up without
// looking, and except those of Close: closing a file that was only read loses nothing,
// and writers check.
func unchecked(pass *analysis.Pass) (any, error) {
	quiet := *pass
	quiet.Report = func(analysis.Diagnostic) {}
	result, err := errcheck.Analyzer.Run(&quiet)
	if err != nil {
		return nil, err
	}
	for _, e := range result.(errcheck.Result).UncheckedErrors {
		if strings.HasSuffix(e.Pos.Filename, "_test.go") || strings.HasSuffix(e.SelectorName, ".Close") {
			continue
		}
		name := e.SelectorName
		if name == "" {
			name = e.FuncName
		}
		pass.Report(analysis.Diagnostic{Pos: posOf(pass, e.Pos), Message: "the error of " + name + " is not checked"})
	}
	return nil, nil
}

// unneeded reports conversions that change nothing, except in files for Unix: there
// the type of a field differs between systems.
func unneeded(pass *analysis.Pass) (any, error) {
	for _, at := range unconvert.Run(pass) {
		if strings.HasSuffix(at.Filename, "_unix.go") {
			continue
		}
		pass.Report(analysis.Diagnostic{Pos: posOf(pass, at), Message: "the conversion is unnecessary"})
	}
	return nil, nil
}

// posOf is the place of a line and a column.
func posOf(pass *analysis.Pass, at token.Position) token.Pos {
	for _, f := range pass.Files {
		if file := pass.Fset.File(f.FileStart); file.Name() == at.Filename {
			return file.LineStart(at.Line) + token.Pos(at.Column-1)
		}
	}
	return token.NoPos
}

// withObjects lets an analyzer see a package as resolved reads it.
func withObjects(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Requires = append(a.Requires, resolved)
	a.Run = func(pass *analysis.Pass) (any, error) {
		again := *pass
		read := pass.ResultOf[resolved].(*analysis.Pass)
		again.Files, again.Pkg, again.TypesInfo = read.Files, read.Pkg, read.TypesInfo
		return run(&again)
	}
	return a
}

// resolved reads a package a second time, with the objects that the parser resolves.
// staticcheck leaves them out. Without them, ineffassign finds nothing, and errorlint
// does not recognize functions that return io.EOF unwrapped.
var resolved = &analysis.Analyzer{
	Name:       "resolved",
	Doc:        "reads a package again and resolves its objects",
	ResultType: reflect.TypeFor[*analysis.Pass](),
	Run: func(pass *analysis.Pass) (any, error) {
		again := &analysis.Pass{TypesInfo: newInfo()}
		for _, f := range pass.Files {
			name := pass.Fset.File(f.FileStart).Name()
			f, err := parser.ParseFile(pass.Fset, name, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			again.Files = append(again.Files, f)
		}
		imports := importer{}
		for _, imported := range pass.Pkg.Imports() {
			imports[imported.Path()] = imported
		}
		config := types.Config{Importer: imports, Sizes: pass.TypesSizes, GoVersion: pass.Pkg.GoVersion()}
		var err error
		again.Pkg, err = config.Check(pass.Pkg.Path(), pass.Fset, again.Files, again.TypesInfo)
		return again, err
	},
}
