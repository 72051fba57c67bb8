package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/internal/cli"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:     "version",
		Synopsis: "[--json]",
		Summary:  "print the version and build of llmrun",
		About: `Prints the version, the commit of the build, the Go release, the system, and the build tags, as --version does.

--json prints one object: version, revision (the whole commit, if known), modified (the tree differed from that commit), go, tags (a list), and machine with os, arch, processors and kernels (the instruction set of the matmul kernels).`,
		Examples: []cli.Example{
			{Line: "llmrun version", Purpose: "one line, for a bug report"},
			{Line: "llmrun --version", Purpose: "the same"},
			{Line: "llmrun version --json", Purpose: "the same and the machine, for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			return cli.ShowAction(f, thisVersion, func(v version, w io.Writer) { fmt.Fprintln(w, v) })
		},
	}
}

// A version describes the build and the machine.
type version struct {
	Version  string        `json:"version"`
	Revision string        `json:"revision"` // "" = unknown
	Modified bool          `json:"modified"`
	Go       string        `json:"go"`
	Tags     []string      `json:"tags"`
	Machine  bench.Machine `json:"machine"`
}

// thisVersion reads the build information of the program.
func thisVersion() version {
	v := version{Version: build.Version(), Go: runtime.Version(), Tags: []string{}, Machine: bench.ThisMachine()}
	info, known := debug.ReadBuildInfo()
	if !known {
		return v
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Revision = setting.Value
		case "vcs.modified":
			v.Modified = setting.Value == "true"
		case "-tags":
			v.Tags = strings.Split(setting.Value, ",")
		}
	}
	return v
}

// String is the version on one line.
func (v version) String() string {
	const shown = 12 // digits of the revision
	words := []string{"llmrun", v.Version}
	if v.Revision != "" {
		words = append(words, v.Revision[:min(shown, len(v.Revision))])
	}
	words = append(words, v.Go, v.Machine.OS+"/"+v.Machine.Arch)
	if len(v.Tags) > 0 {
		words = append(words, "tags "+strings.Join(v.Tags, ","))
	}
	return strings.Join(words, " ")
}
