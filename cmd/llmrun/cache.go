package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// cacheFlags configure the cache directory: imported models, sessions and the prefix cache.
type cacheFlags struct {
	dir  string // "" for the user's cache directory
	size int64  // bytes; 0 = the library's default
	off  bool
	noKV bool // no prefix cache
}

// addDir declares the flags for the directory and the size of the cache.
func (c *cacheFlags) addDir(f *cli.FlagSet) {
	f.Text(&c.dir, "cache-dir", "DIR", "directory of imported models, sessions and the prefix cache; default: llmrun in the user's cache directory")
	f.Value("cache-size", "SIZE", "most bytes in the cache directory, such as 20G, of which keys and values use at most a quarter; default: 32G, or a third of the free disk space if that is less. The least recently used files are deleted first", func(text string) (err error) {
		c.size, err = parseSize(text)
		return err
	})
}

// add declares the flags of commands that import models on first use.
func (c *cacheFlags) add(f *cli.FlagSet) {
	f.Group("Import on first use")
	f.Toggle(&c.off, "no-import", "use the model file directly and write nothing; loading takes longer")
	f.Toggle(&c.noKV, "no-kv-cache", "neither save nor reuse keys and values of prompts that share a prefix")
	c.addDir(f)
}

// directory returns where the cache is.
func (c *cacheFlags) directory() (string, error) {
	if c.dir != "" {
		return c.dir, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("the user has no cache directory; --cache-dir names one: %w", err)
	}
	return filepath.Join(base, "llmrun"), nil
}

// apply sets the cache options for opening a model. Without a cache directory the model still
// runs, uncached.
func (c *cacheFlags) apply(options *llmrun.Options) {
	options.Cache.NoKV = c.noKV
	if c.off {
		return
	}
	if dir, err := c.directory(); err == nil {
		options.Cache.Dir, options.Cache.Size = dir, c.size
	}
}

// applySessions sets the options for saving sessions, also for models that are not imported.
func (c *cacheFlags) applySessions(options *llmrun.Options) (err error) {
	options.Cache.NoKV = c.noKV
	options.Cache.Size = c.size
	options.Cache.KVDir, err = c.directory()
	return err
}

// parseSize reads a number of bytes with a unit of 1024: 500M, 20G, 1.5T.
func parseSize(text string) (int64, error) {
	units := map[string]float64{"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
	number := strings.TrimRight(strings.ToUpper(text), "KMGTIB")
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text)[len(number):], "B"), "I")
	factor, known := units[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || !(n*factor >= 1 && n*factor < math.MaxInt64/2) {
		return 0, fmt.Errorf("must be a size such as 500M or 20G, not %q", text)
	}
	return int64(n * factor), nil
}

func cacheCommand() *cli.Command {
	return &cli.Command{
		Name:     "cache",
		Synopsis: "[list | rm NAME... | clean] [--cache-dir DIR] [--json]",
		Summary:  "list or delete models that were imported on first use",
		About: `Lists the packs in the cache with their size, source model and time of last use, and the size of the keys and values of prompts and sessions. rm deletes packs by name. clean deletes all packs, and the keys and values that no session needs. The source models stay and are imported again on their next use.

--json prints {"dir":"…","packs":[{"name":"…","bytes":…,"source":"…","used":"…"}],"kv":{"files":…,"bytes":…,"session_bytes":…}} for list and {"freed":…} for rm and clean.`,
		Examples: []cli.Example{
			{Line: "llmrun cache", Purpose: "list the packs"},
			{Line: "llmrun cache rm qwen2.5-1.5b-q4_0-0123456789abcdef.pack", Purpose: "delete one pack"},
			{Line: "llmrun cache clean", Purpose: "delete all packs"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &cacheCommandFlags{}
			c.add(f)
			return c.dispatch("a pack, as llmrun cache lists it",
				verb{"list", 0, 0, c.list},
				verb{"rm", 1, anyNumber, c.remove},
				verb{"clean", 0, 0, c.clean})
		},
	}
}

// cacheCommandFlags are the flags of cache.
type cacheCommandFlags struct{ storeFlags }

// list prints the packs, the most recently used first.
func (c *cacheCommandFlags) list(s *cli.Streams, dir string, _ []string) error {
	packs, err := llmrun.CachedPacks(dir)
	if err != nil {
		return err
	}
	saved, err := llmrun.CachedKV(dir)
	if err != nil {
		return err
	}
	if c.json {
		if packs == nil {
			packs = []llmrun.CachedPack{} // an empty list rather than null
		}
		return s.Out.WriteJSON(struct {
			Dir   string              `json:"dir"`
			Packs []llmrun.CachedPack `json:"packs"`
			KV    llmrun.SavedKV      `json:"kv"`
		}{dir, packs, saved})
	}
	for _, p := range packs {
		used := "never"
		if !p.Used.IsZero() {
			used = p.Used.Local().Format(time.DateTime)
		}
		fmt.Fprintf(s.Out, "%10s  %-19s  %s\n", cli.FormatBytes(p.Bytes), used, strings.Map(cli.VisibleRune, p.Name))
		if p.Source != "" {
			fmt.Fprintf(s.Out, "%33s%s\n", "from ", strings.Map(cli.VisibleRune, p.Source))
		}
	}
	fmt.Fprintf(s.Out, "%s, %s in %s\n", countOf(len(packs), "pack"), cli.FormatBytes(packBytes(packs)), dir)
	if saved.Files > 0 {
		fmt.Fprintf(s.Out, "keys and values of prompts and sessions: %s, of which sessions need %s\n", cli.FormatBytes(saved.Bytes), cli.FormatBytes(saved.SessionBytes))
	}
	return nil
}

// remove deletes packs by name, and continues after one that fails.
func (c *cacheCommandFlags) remove(s *cli.Streams, dir string, names []string) error {
	packs, err := llmrun.CachedPacks(dir)
	if err != nil {
		return err
	}
	packs = slices.DeleteFunc(packs, func(p llmrun.CachedPack) bool { return !slices.Contains(names, p.Name) })
	if err := removePacks(dir, names); err != nil {
		return err
	}
	return c.deleted(s, packs, llmrun.SavedKV{})
}

// clean deletes all packs, and the keys and values that no session needs.
func (c *cacheCommandFlags) clean(s *cli.Streams, dir string, _ []string) error {
	packs, err := llmrun.CachedPacks(dir)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range packs {
		names = append(names, p.Name)
	}
	if err := removePacks(dir, names); err != nil {
		return err
	}
	saved, err := llmrun.CleanCachedKV(dir)
	if err != nil {
		return err
	}
	return c.deleted(s, packs, saved)
}

// removePacks deletes packs by name, and continues after one that fails.
func removePacks(dir string, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, llmrun.RemoveCachedPack(dir, name))
	}
	return err
}

// deleted reports what was deleted.
func (c *cacheCommandFlags) deleted(s *cli.Streams, packs []llmrun.CachedPack, saved llmrun.SavedKV) error {
	if c.json {
		return s.Out.WriteJSON(freed{packBytes(packs) + saved.Bytes})
	}
	fmt.Fprintf(s.Out, "%s deleted, %s freed\n", countOf(len(packs), "pack"), cli.FormatBytes(packBytes(packs)))
	if saved.Files > 0 {
		fmt.Fprintf(s.Out, "keys and values deleted, %s freed\n", cli.FormatBytes(saved.Bytes))
	}
	return nil
}

// packBytes returns the total size of packs.
func packBytes(packs []llmrun.CachedPack) (total int64) {
	for _, p := range packs {
		total += p.Bytes
	}
	return total
}
