package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const head = `# Kernels

After reading this page you know which kernel each instruction set has for each work and format.

It is generated: ` + "`go run ./quant/internal/kerneltable`" + ` builds the dispatch of package quant for both architectures, with
functions that record their names in place of the assembly, and runs each work. ` + "`make generate-check`" + ` fails if the page
is stale. Suffixes that name a column are left out, and so are the kernels that decode scales and copy results, which
every product has. "Go" is portable Go, with its share of a token or a prompt. Without any of these instruction sets, and
in a build with the tag noasm, everything is Go. Speeds are in [cpu.md](cpu.md).

`

// render writes the page, or reports a cell that breaks the promise about portable Go.
func render(found kernels) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(head)
	var over []string // works that break the promise about portable Go
	for _, s := range sections {
		fmt.Fprintf(&out, "## %s\n\n", s.title)
		if s.about != "" {
			fmt.Fprintf(&out, "%s\n\n", s.about)
		}
		lines, names := []string{}, map[string][]string{}
		for _, r := range s.rows {
			cells, beyond, err := r.cells(found)
			if err != nil {
				return nil, err
			}
			if len(beyond) > 0 {
				over = append(over, r.name+" ("+strings.Join(beyond, ", ")+")")
			}
			if names[cells] == nil {
				lines = append(lines, cells)
			}
			names[cells] = append(names[cells], r.name)
		}
		table(&out, lines, names)
	}
	if len(over) > 0 {
		return nil, fmt.Errorf("in portable Go, but more than %d %% of a token or a prompt: %s", maxShare, strings.Join(over, "; "))
	}
	out.WriteString("## Portable Go\n\n" + measured)
	fmt.Fprintf(&out, "\nNo work in portable Go takes more than %d %%, except with NEON alone; the generator would fail.\n", maxShare)
	return out.Bytes(), nil
}

// table writes one line for all rows that have the same cells.
func table(out *bytes.Buffer, lines []string, names map[string][]string) {
	out.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", c.name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, cells := range lines {
		fmt.Fprintf(out, "| %s |%s\n", strings.Join(names[cells], "; "), cells)
	}
	out.WriteString("\n")
}

// cells returns the cells of a row, and the strict columns in which it is Go and takes too much.
func (r row) cells(found kernels) (line string, over []string, err error) {
	var all [][]string
	for i, c := range columns {
		names, ok := found.of(c, r.work)
		if !ok {
			return "", nil, fmt.Errorf("the probe has no work %s on %s", r.work, c.name)
		}
		all = append(all, names)
		text := c.short(names)
		switch {
		case len(names) == 0 && r.where == "":
			return "", nil, fmt.Errorf("%s is Go on %s, but nobody measured its share", r.work, c.name)
		case len(names) == 0:
			text = fmt.Sprintf("Go, %v %% %s", r.share, r.where)
			if r.share > maxShare && slices.Contains(strict, c.name) {
				over = append(over, c.name)
			}
		case r.decodes && !slices.ContainsFunc(names, decoder):
			return "", nil, fmt.Errorf("%s on %s: Go decodes what %v multiply", r.work, c.name, names)
		case c.base >= 0 && slices.Equal(names, all[c.base]):
			text = "as " + columns[c.base].name
		case i > 0 && text == "":
			return "", nil, fmt.Errorf("%s has no kernel but %v on %s", r.work, names, c.name)
		}
		line += " " + text + " |"
	}
	return line, over, nil
}

// decoder reports whether a kernel decodes the codes of low-bit formats.
func decoder(name string) bool {
	return strings.HasPrefix(name, "low") || strings.HasPrefix(name, "gemv")
}
