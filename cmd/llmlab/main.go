// Command llmlab is the laboratory of llmrun: it measures what a user of llmrun does not ask
// for. It compares simulated phones with papers, splits matmuls between devices, times a GPU
// kernel by kernel, keys and values on flash, per-tensor activations (W8A8), and what memory
// budgets cost. `llmlab help` is its manual.
package main

import (
	"context"
	"fmt"
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
		Intro: `llmlab measures llmrun's parts, on this machine or on simulated phones.

Usage: llmlab COMMAND [flags]`,
		End: `Start here
  llmlab papers
  llmlab devices -r 5
  llmlab help kv`,
		Groups: []cli.CommandGroup{
			{Title: "Memory and flash", Commands: []*cli.Command{budgetCommand(), overheadCommand(), kvCommand()}},
			{Title: "Devices", Commands: []*cli.Command{devicesCommand(), splitCommand(), gpuCommand(), w8A8Command()}},
			{Title: "Simulations", Commands: []*cli.Command{papersCommand()}},
		},
	}
}

const modelUsage = "GGUF file (any part of a split one), Hugging Face directory, or pack; without it, the bundled model"

// bundledModel returns the model that commands measure unless they are given another.
func bundledModel() modelflag.Source {
	return modelflag.Source{Bundled: bundled.Name, BundledFS: bundled.FS}
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

// cacheDir returns the cache directory: the one that is given, or the user's.
func cacheDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w; name a directory with --cache-dir", err)
	}
	return filepath.Join(dir, "llmrun"), nil
}
