package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// result is what the probe prints for a path and a work.
type result struct {
	Path, Work string
	Kernels    []string
}

// architectures are those with kernels.
var architectures = []string{"amd64", "arm64"}

// probe builds the dispatch of an architecture for this machine, with functions that record their
// names in place of the assembly, and runs it.
func probe(root, arch string) ([]result, error) {
	dir, err := os.MkdirTemp("", "kerneltable")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay := map[string]string{}
	for _, pkg := range []string{"quant", filepath.Join("quant", "tiled")} {
		if err := replace(overlay, filepath.Join(root, pkg), dir, arch); err != nil {
			return nil, err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		return nil, err
	}
	run := exec.Command("go", "run", "-tags", "kernelprobe", "-overlay", path, "./quant/internal/kerneltable")
	run.Dir, run.Stderr = root, os.Stderr
	out, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("probe of %s: %w", arch, err)
	}
	var all []result
	return all, json.Unmarshal(out, &all)
}

// replace adds the files of a package that depend on the architecture to an overlay: those of arch
// under names that every architecture builds, and no other. Copies are written to dir.
func replace(overlay map[string]string, pkg, dir, arch string) error {
	files, err := os.ReadDir(pkg)
	if err != nil {
		return err
	}
	for _, file := range files {
		name := file.Name()
		path := filepath.Join(pkg, name)
		if strings.HasSuffix(name, ".s") {
			overlay[path] = ""
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		takes, err := matches(pkg, name, arch)
		if err != nil {
			return err
		}
		other, err := matches(pkg, name, "riscv64")
		if err != nil {
			return err
		}
		here, err := matches(pkg, name, build.Default.GOARCH)
		if err != nil {
			return err
		}
		if takes == other && takes == here {
			continue
		}
		overlay[path] = ""
		if !takes {
			continue
		}
		text, err := recording(path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.Base(pkg)+"_"+name)
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
		overlay[filepath.Join(pkg, strings.TrimSuffix(name, ".go")+"_here.go")] = to
	}
	return nil
}

// matches reports whether an architecture builds a file.
func matches(dir, name, arch string) (bool, error) {
	context := build.Default
	context.GOARCH, context.BuildTags, context.CgoEnabled = arch, []string{"kernelprobe"}, false
	return context.MatchFile(dir, name)
}

// directives are lines that say where a file is built, or that a function has no body.
var directives = regexp.MustCompile(`(?m)^//go:(build|noescape|nosplit).*\n`)

// recording returns the text of a Go file in which functions without a body record their names.
func recording(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	record := "quant.Record"
	if file.Name.Name == "quant" {
		record = "Record"
	}
	var out strings.Builder
	done := 0
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body != nil {
			continue
		}
		end := set.Position(f.End()).Offset
		out.Write(text[done:end])
		fmt.Fprintf(&out, " { %s(%q)%s }", record, f.Name.Name, returned(f))
		done = end
	}
	out.Write(text[done:])
	code := out.String()
	if record == "quant.Record" && !strings.Contains(code, `"github.com/llmrun/llmrun/quant"`) && strings.Contains(code, record) {
		code = strings.Replace(code, "\npackage tiled\n", "\npackage tiled\n\nimport \"github.com/llmrun/llmrun/quant\"\n", 1)
	}
	return []byte(directives.ReplaceAllString(code, "")), nil
}

// returned is the end of a recording function's body. A result of one makes callers go on, where
// they would stop at a vector of zeros.
func returned(f *ast.FuncDecl) string {
	if f.Type.Results == nil {
		return ""
	}
	if t, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && t.Name == "uint32" {
		return "; return 0x3F800000"
	}
	return "; return 1"
}
