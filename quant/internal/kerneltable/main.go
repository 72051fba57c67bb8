// Command kerneltable writes docs/results/kernels.md, the table of kernels: which kernel each
// instruction set has for each work and format. It builds the dispatch of package quant for both
// architectures with functions that record their names in place of the assembly, so the table says
// what runs, not what somebody believes to run.
//
// It runs in the repository's root. With -check it writes nothing and exits with status 1 if the
// page in the tree differs.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// page is the file that the command writes.
var page = filepath.Join("docs", "results", "kernels.md")

// describe is set in the program that probe runs: it prints results.
var describe func() error

func main() {
	check := flag.Bool("check", false, "compare with the page in the tree, write nothing")
	flag.Parse()
	work := func() error { return run(".", *check) }
	if describe != nil {
		work = describe
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, "kerneltable:", err)
		os.Exit(1)
	}
}

// run writes the page below root, or compares it if check is set.
func run(root string, check bool) error {
	found := kernels{}
	for _, arch := range architectures {
		results, err := probe(root, arch)
		if err != nil {
			return err
		}
		for _, r := range results {
			found[key{arch, r.Path, r.Work}] = r.Kernels
		}
	}
	if err := fixedWorks.verify(root); err != nil {
		return err
	}
	text, err := render(found)
	if err != nil {
		return err
	}
	path := filepath.Join(root, page)
	if !check {
		return os.WriteFile(path, text, 0o644)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, text) {
		return errors.New(page + " is stale: run go run ./quant/internal/kerneltable")
	}
	return nil
}

// key identifies a cell.
type key struct{ arch, path, work string }

// kernels are those that a path calls for a work. A missing key is a work that the probe lacks.
type kernels map[key][]string

// column is a tier: an instruction set.
type column struct {
	name, arch   string
	quant, tiled string // paths of the packages
	suffix       string // of names of kernels, which the column's cells leave out
	base         int    // the column that this one extends
}

var columns = []column{
	{name: "AVX2", arch: "amd64", quant: "avx2", tiled: "avx2", suffix: "AVX2", base: -1},
	{name: "AVX-VNNI", arch: "amd64", quant: "avxVNNI", tiled: "avxVNNI", suffix: "VNNI", base: 0},
	{name: "AVX-512", arch: "amd64", quant: "avx512", tiled: "avx512", suffix: "AVX512", base: -1},
	{name: "AMX", arch: "amd64", quant: "avx512", tiled: "amx", suffix: "AMX", base: 2},
	{name: "NEON", arch: "arm64", quant: "neon", tiled: "neon", suffix: "NEON", base: -1},
	{name: "DotProd", arch: "arm64", quant: "neonDot", tiled: "neonDot", suffix: "NEON", base: 4},
	{name: "I8MM", arch: "arm64", quant: "neonMatrix", tiled: "neonMatrix", suffix: "NEON", base: 5},
}

// strict are the columns in which no work of more than maxShare percent may be in portable Go.
var strict = []string{"AVX2", "AVX-VNNI", "AVX-512", "AMX", "DotProd", "I8MM"}

const maxShare = 2

// of returns the kernels of a column for a work.
func (k kernels) of(c column, work string) ([]string, bool) {
	if names, ok := fixedWorks[work]; ok {
		return names[c.name], true
	}
	for _, path := range []string{"quant/" + c.quant, "tiled/" + c.tiled} {
		if names, ok := k[key{c.arch, path, work}]; ok {
			return names, true
		}
	}
	return nil, false
}

// short leaves out what every product has, the decoding of scales and the copying of results, and
// the column's suffix.
func (c column) short(names []string) string {
	var all []string
	for _, name := range names {
		if strings.HasPrefix(name, "copy") || strings.HasPrefix(name, "scales") {
			continue
		}
		all = append(all, strings.TrimSuffix(name, c.suffix))
	}
	return strings.Join(all, ", ")
}
