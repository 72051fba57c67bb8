package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/cli"
)

// programModel is the path of this program's own file if llmrun bundle has put a model behind it, and "" otherwise.
var programModel = sync.OnceValue(func() string {
	path, err := bundled.Program()
	if err != nil || !llmrun.HasBundle(path) {
		return ""
	}
	return path
})

// ownFile returns the path of the model that a command uses without -m, and its file system: nil for this program's own file, in the system's.
func ownFile() (path string, fsys fs.FS) {
	if path := programModel(); path != "" {
		return path, nil
	}
	return bundled.Name, bundled.FS
}

// Placeholders in texts of the help for what a command uses without -m. To know it takes reading the program's own file, which
// only a text that is printed is worth.
const (
	defaultModel       = "{default model}"
	defaultModelRemark = "{default model with a remark}"
)

// nameDefaultModel replaces the placeholders in a text.
func nameDefaultModel(text string) string {
	if !strings.Contains(text, defaultModel) && !strings.Contains(text, defaultModelRemark) {
		return text
	}
	name, remark := "the bundled demo model", "the bundled\ndemo model, which is small and often wrong."
	if programModel() != "" {
		name, remark = "the model in this program", "the model\nin this program."
	}
	return strings.NewReplacer(defaultModel, name, defaultModelRemark, remark).Replace(text)
}

func bundleCommand() *cli.Command {
	return &cli.Command{
		Name:     "bundle",
		Synopsis: "-m MODEL -o FILE [--for PROGRAM] [--force] [--json]",
		Summary:  "write one executable with a model inside",
		About: `Writes a copy of this program with a model inside: one file, to copy to another machine or hand to a friend, that answers with that model where no -m names another. It reads the weights from its own file, as from a pack of llmrun import, in the same memory and with the same answers. -m MODEL, verify, inspect and plan take such a file as a model, too.

--for takes the llmrun of another system, such as one of a release. The copy has no model but the new one and the bundled demo model, so a program with a model inside can be bundled again. A GGUF file or a Hugging Face directory is imported without loss; bundle a pack of llmrun import --quant to make it smaller. Windows runs no executable of 4 GiB or more.

An interrupted run, or one that fills the disk, leaves no file.

--json prints one object: path and bytes of the executable, system (such as linux/arm64), and source_bytes of the model's files.`,
		Examples: []cli.Example{
			{Line: "llmrun bundle -m model.gguf -o assistant && ./assistant chat", Purpose: "one file that answers with that model"},
			{Line: "llmrun bundle -m model.gguf -o assistant --for llmrun-android-arm64", Purpose: "for a phone"},
			{Line: "llmrun verify assistant", Purpose: "check the model in it after copying it"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &bundleFlags{}
			f.Group("Model")
			f.Text(&b.model, "m model", "PATH", "model to put inside: a GGUF file (any part of a split one), Hugging Face directory, pack, or the name of a model in llmrun models")
			f.Group("Output")
			f.Text(&b.to, "o output", "FILE", "the executable to write")
			f.Text(&b.program, "for", "PROGRAM", "the llmrun of another system, of this version or a later one; default: this program")
			f.Toggle(&b.force, "force", "replace an existing file")
			f.Toggle(&b.json, "json", "print one JSON object")
			return b.run
		},
	}
}

// bundleFlags are the flags of bundle.
type bundleFlags struct {
	model, to string
	program   string // "" = this one
	force     bool
	json      bool
}

// bundleReport is the JSON object of --json.
type bundleReport struct {
	Path        string `json:"path"`
	Bytes       int64  `json:"bytes"`
	System      string `json:"system"`
	SourceBytes int64  `json:"source_bytes"`
}

func (b *bundleFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	model, err := b.check()
	if err != nil {
		return err
	}
	program, system, err := b.findProgram()
	if err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	bar := &phases{s: s, labels: []string{"bundling", "bundling"}}
	done, err := llmrun.Bundle(ctx, model, program, b.to, llmrun.BundleOptions{MostBytes: mostBytes(system), Notify: s.Note, Progress: bar.report})
	bar.finish()
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if strings.HasPrefix(system, "windows/") && !strings.EqualFold(filepath.Ext(b.to), ".exe") {
		s.Note(fmt.Sprintf("Windows runs files whose names end in .exe: rename %s", b.to))
	}
	if b.json {
		return s.Out.WriteJSON(bundleReport{done.Path, done.Bytes, system, done.SourceBytes})
	}
	_, err = fmt.Fprintf(s.Out, "%s: %s, llmrun for %s with %s inside\n", cli.VisibleLine(done.Path), cli.FormatBytes(done.Bytes), system, cli.VisibleLine(filepath.Base(model)))
	return err
}

// check refuses flags that are missing, and returns the path of the model.
func (b *bundleFlags) check() (model string, err error) {
	switch {
	case b.model == "":
		return "", cli.Usagef("-m is missing: name the model to put inside")
	case b.to == "":
		return "", cli.Usagef("-o is missing: name the executable to write")
	}
	if model, err = findModel("-m", b.model); err != nil {
		return "", err
	}
	if info, err := os.Stat(b.to); err == nil && info.IsDir() {
		return "", cli.Usagef("-o: %s is a directory: name a file in it", b.to)
	}
	return model, refuseExisting(b.to, b.force)
}

// findProgram returns the program to copy, and its system.
func (b *bundleFlags) findProgram() (path, system string, err error) {
	if b.program == "" {
		path, err = bundled.Program()
		return path, markOf.FindStringSubmatch(programMark)[1], err
	}
	if err := cli.CheckExists("--for", b.program); err != nil {
		return "", "", err
	}
	system, err = systemOf(b.program)
	if err != nil {
		return "", "", fmt.Errorf("--for: %w", err)
	}
	return b.program, system, nil
}

// programMark is in every program that reads a model behind its own file, with its system.
const programMark = "llmrun reads the model behind this program on " + runtime.GOOS + "/" + runtime.GOARCH + ".\n"

// markOf finds programMark of any system.
var markOf = regexp.MustCompile(`llmrun reads the model behind this program on ([a-z0-9]+/[a-z0-9]+)\.\n`)

// systemOf returns the system of an llmrun program, which it finds by its mark.
func systemOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const longest = 2 * len(programMark)
	buf := make([]byte, 1<<20)
	for kept := 0; ; {
		n, err := f.Read(buf[kept:])
		if m := markOf.FindSubmatch(buf[:kept+n]); m != nil {
			return string(bytes.Clone(m[1])), nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return "", fmt.Errorf("%s is no llmrun that can have a model inside: give the program of a release, of this version or a later one", path)
		case err != nil:
			return "", err
		}
		end := kept + n
		kept = copy(buf, buf[max(0, end-longest):end])
	}
}

// mostBytes returns the largest executable that a system runs, 0 = any.
func mostBytes(system string) int64 {
	if strings.HasPrefix(system, "windows/") {
		return 1<<32 - 1
	}
	return 0
}
