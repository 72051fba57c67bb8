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

// cacheFlags say where models are imported to when they are first used.
type cacheFlags struct {
	dir  string // "" for the user's cache directory
	size int64  // bytes; 0 for the library's choice
	off  bool
	noKV bool // keys and values of prompts are not kept
}

// addDir declares where the cache is and how large it may be.
func (c *cacheFlags) addDir(f *cli.FlagSet) {
	f.Text(&c.dir, "cache-dir", "DIR", "where imported models are kept, and sessions and what was read of prompts; without it, llmrun in the user's cache directory")
	f.Value("cache-size", "SIZE", "how large it may become, such as 20G, of which keys and values of prompts and sessions take a quarter at most; without it, 32G, or a third of what is free on the disk; what was not used for longest goes first", func(text string) (err error) {
		c.size, err = parseSize(text)
		return err
	})
}

// add declares the flags of commands that import on first use.
func (c *cacheFlags) add(f *cli.FlagSet) {
	f.Group("Import on first use")
	f.Toggle(&c.off, "no-import", "use the model as it is: nothing is written, and loading takes longer")
	f.Toggle(&c.noKV, "no-kv-cache", "do not keep what was read of long prompts for later ones that begin alike, and use none of it")
	c.addDir(f)
}

// directory returns where the cache is.
func (c *cacheFlags) directory() (string, error) {
	if c.dir != "" {
		return c.dir, nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for imported models (--cache-dir names one): %w", err)
	}
	return filepath.Join(base, "llmrun"), nil
}

// apply sets the options for opening a model. Nobody needs a cache as badly as
// an answer: without a place for it, models are used as they are.
func (c *cacheFlags) apply(options *llmrun.Options) {
	options.Cache.NoKV = c.noKV
	if c.off {
		return
	}
	if dir, err := c.directory(); err == nil {
		options.Cache.Dir, options.Cache.Size = dir, c.size
	}
}

// applySessions sets the options for keeping sessions, also those of models that
// are not imported.
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
		Summary:  "show or delete the models that were imported on first use",
		About: `Lists the packs in the cache: their names, sizes, the models that they were made from and when they were last used; and how much the keys and values take that were kept of prompts and sessions. rm deletes some packs, clean all of them, and the keys and values that no session needs. The models themselves stay, and are imported again when they are used.

--json prints {"dir":"…","packs":[{"name":"…","bytes":…,"source":"…","used":"…"}],"kv":{"files":…,"bytes":…,"session_bytes":…}} for list and {"freed":…} for rm and clean.`,
		Examples: []cli.Example{
			{Line: "llmrun cache", Purpose: "what is there"},
			{Line: "llmrun cache rm qwen2.5-1.5b-q4_0-0123456789abcdef.pack", Purpose: "delete one pack"},
			{Line: "llmrun cache clean", Purpose: "delete all"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &cacheCommandFlags{}
			c.add(f)
			return c.dispatch("a pack, as llmrun cache shows it",
				verb{"list", 0, 0, c.list},
				verb{"rm", 1, anyNumber, c.remove},
				verb{"clean", 0, 0, c.clean})
		},
	}
}

// cacheCommandFlags are the flags of cache.
type cacheCommandFlags struct{ storeFlags }

// list prints the packs, those first that were used last.
func (c *cacheCommandFlags) list(s *cli.Streams, dir string, _ []string) error {
	packs, err := llmrun.CachedPacks(dir)
	if err != nil {
		return err
	}
	kept, err := llmrun.CachedKV(dir)
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
		}{dir, packs, kept})
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
	if kept.Files > 0 {
		fmt.Fprintf(s.Out, "keys and values of prompts and sessions: %s, of which sessions need %s\n", cli.FormatBytes(kept.Bytes), cli.FormatBytes(kept.SessionBytes))
	}
	return nil
}

// remove deletes packs by name, and goes on behind one that fails.
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
	kept, err := llmrun.CleanCachedKV(dir)
	if err != nil {
		return err
	}
	return c.deleted(s, packs, kept)
}

// removePacks deletes packs by name, and goes on behind one that fails.
func removePacks(dir string, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, llmrun.RemoveCachedPack(dir, name))
	}
	return err
}

// deleted says what is gone.
func (c *cacheCommandFlags) deleted(s *cli.Streams, packs []llmrun.CachedPack, kept llmrun.SavedKV) error {
	if c.json {
		return s.Out.WriteJSON(freed{packBytes(packs) + kept.Bytes})
	}
	fmt.Fprintf(s.Out, "%s deleted, %s freed\n", countOf(len(packs), "pack"), cli.FormatBytes(packBytes(packs)))
	if kept.Files > 0 {
		fmt.Fprintf(s.Out, "keys and values deleted, %s freed\n", cli.FormatBytes(kept.Bytes))
	}
	return nil
}

// packBytes returns how large packs are together.
func packBytes(packs []llmrun.CachedPack) (total int64) {
	for _, p := range packs {
		total += p.Bytes
	}
	return total
}
