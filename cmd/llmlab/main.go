// Command llmlab is the laboratory of llmrun: measurements for developers. It compares simulated
// phones with papers, times splits of matmuls between devices, GPU kernels, keys and values on
// flash, and memory budgets, and measures the perplexity of W8A8. `llmlab help` is its manual.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
)

func main() {
	os.Exit(program().Execute(context.Background(), cli.SystemStreams(), os.Args[1:]))
}

// program returns the program with all of its commands.
func program() *cli.Program {
	return &cli.Program{
		Name: "llmlab", Version: build.Name(),
		Intro: `llmlab measures the parts of llmrun, on this machine or on simulated phones.

Usage: llmlab COMMAND [flags]`,
		End: `Start here
  llmlab papers
  llmlab devices -r 5
  llmlab help kv`,
		Groups: []cli.CommandGroup{
			{Title: "Memory and flash", Commands: []*cli.Command{budgetCommand(), overheadCommand(), kvCommand(), spillCommand(), recallCommand(), loraCommand()}},
			{Title: "Answers", Commands: []*cli.Command{votesCommand(), sparsityCommand(), groupsCommand()}},
			{Title: "Devices", Commands: []*cli.Command{devicesCommand(), splitCommand(), gpuCommand(), w8A8Command()}},
			{Title: "Simulations", Commands: []*cli.Command{papersCommand()}},
		},
	}
}

const modelUsage = "GGUF file (any part of a split one), Hugging Face directory, or pack; default: the bundled model"

// bundledModel returns the default model of commands.
func bundledModel() modelflag.Source {
	return modelflag.Source{Bundled: func() (string, fs.FS) { return bundled.Name, bundled.FS }}
}

// addDisk declares --disk, which slows reads down.
func addDisk(f *cli.FlagSet, speed *llmrun.DiskSpeed) {
	f.Value("disk", "SPEED", "read at the speed of a slower disk, such as 1GB/s, or 800MB/s,100us to add a latency to each read", func(text string) (err error) {
		if *speed, err = llmrun.ParseDiskSpeed(text); err != nil {
			return fmt.Errorf("must be a speed such as 1GB/s, or 800MB/s,100us, not %q", text)
		}
		return nil
	})
}

// addFlash declares --flash, which selects how files are read.
func addFlash(f *cli.FlagSet, how *string) {
	f.Choice(how, "flash", "HOW", "how what is on flash is read: direct, past the page cache, or mmap, through small mapped windows; default: direct", "direct", "mmap")
}

// cacheDir returns the directory of --cache-dir, or llmrun in the user's cache directory.
func cacheDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w; --cache-dir names a directory", err)
	}
	return filepath.Join(dir, "llmrun"), nil
}
