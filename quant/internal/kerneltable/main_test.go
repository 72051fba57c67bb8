package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPageIsGenerated asks the dispatch of both architectures, and compares the page in the tree.
func TestPageIsGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the page is generated on amd64")
	}
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	require.NoError(t, run(root, true))
}

// TestRecording checks that an assembly function becomes one that records its name, and that the
// rest of a file stays.
func TestRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.go")
	require.NoError(t, os.WriteFile(path, []byte(`//go:build amd64

package tiled

//go:noescape
func kernel(x *float32, n int)

//go:noescape
func most(x *float32) uint32

func plain() int { return 2 }
`), 0o600))
	text, err := recording(path)
	require.NoError(t, err)
	require.Equal(t, `
package tiled

import "github.com/llmrun/llmrun/quant"

func kernel(x *float32, n int) { quant.Record("kernel") }

func most(x *float32) uint32 { quant.Record("most"); return 0x3F800000 }

func plain() int { return 2 }
`, string(text))
}

// found are kernels of one work on every column.
func found(work string, names ...string) kernels {
	k := kernels{}
	for _, c := range columns {
		k[key{c.arch, "quant/" + c.quant, work}] = names
	}
	return k
}

func TestCells(t *testing.T) {
	r := row{name: "work", work: "work"}
	line, over, err := r.cells(found("work", "scalesF16AVX2", "mulAVX2", "copyAVX2"))
	require.NoError(t, err)
	require.Empty(t, over)
	require.Equal(t, " mul | as AVX2 | mulAVX2 | as AVX-512 | mulAVX2 | as NEON | as DotProd |", line)

	_, _, err = r.cells(found("work"))
	require.ErrorContains(t, err, "nobody measured its share")
	_, _, err = r.cells(kernels{})
	require.ErrorContains(t, err, "no work work on AVX2")

	r.share, r.where = 2.5, "[x]"
	line, over, err = r.cells(found("work"))
	require.NoError(t, err)
	require.Equal(t, strict, over)
	require.Contains(t, line, "Go, 2.5 % [x]")
}

// TestPromise checks that portable Go is an error if its share is unknown or above the limit.
func TestPromise(t *testing.T) {
	all := func(work string) kernels {
		k := kernels{}
		for _, s := range sections {
			for _, r := range s.rows {
				for _, c := range columns {
					k[key{c.arch, "quant/" + c.quant, r.work}] = []string{"low", "mul"}
					k[key{c.arch, "tiled/" + c.tiled, r.work}] = []string{"low", "mul"}
					if r.work == work && c.quant == "avx512" {
						k[key{c.arch, "quant/" + c.quant, r.work}] = nil
					}
				}
			}
		}
		return k
	}
	text, err := render(all(""))
	require.NoError(t, err)
	require.Contains(t, string(text), "No work in portable Go")
	_, err = render(all("row/Q3_K"))
	require.ErrorContains(t, err, "Q3_K is Go on AVX-512, but nobody measured its share")

	k := all("")
	k[key{"arm64", "tiled/neonDot", "multiply1/IQ2_S"}] = []string{"mulDotNEON"}
	delete(k, key{"arm64", "quant/neonDot", "multiply1/IQ2_S"})
	_, err = render(k)
	require.ErrorContains(t, err, "multiply1/IQ2_S on DotProd: Go decodes what [mulDotNEON] multiply")

	last := &sections[len(sections)-1].rows[0]
	before := *last
	defer func() { *last = before }()
	last.share, last.where = 2.5, "[x]"
	_, err = render(all(last.work))
	require.ErrorContains(t, err, "more than 2 % of a token or a prompt: the most probable token (AVX-512, AMX)")
}
