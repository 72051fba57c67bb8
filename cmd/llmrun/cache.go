package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
)

// cacheFlags say where models are imported to when they are first used.
type cacheFlags struct {
	dir  string // "" for the user's cache directory
	size int64  // bytes; 0 for the library's choice
	off  bool
	noKV bool // keys and values of prompts are not kept
}

// addDir declares where the cache is and how large it may be.
func (c *cacheFlags) addDir(f *flagSet) {
	f.text(&c.dir, "cache-dir", "DIR", "where imported models are kept; without it, llmrun in the user's cache directory")
	f.value("cache-size", "SIZE", "how large it may become, such as 20G; without it, 32G, or a third of what is free on the disk; what was not used for longest goes first", func(text string) (err error) {
		c.size, err = parseSize(text)
		return err
	})
}

// add declares the flags of commands that import on first use.
func (c *cacheFlags) add(f *flagSet) {
	f.group("Import on first use")
	f.toggle(&c.off, "no-import", "use the model as it is: nothing is written, and loading takes longer")
	f.toggle(&c.noKV, "no-kv-cache", "do not keep what was read of long prompts for later ones that begin alike, and use none of it")
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
	options.NoKVCache = c.noKV
	if c.off {
		return
	}
	if dir, err := c.directory(); err == nil {
		options.CacheDir, options.CacheSize = dir, c.size
	}
}

// keepSessions sets the options for keeping sessions, also those of models that
// are not imported.
func (c *cacheFlags) keepSessions(options *llmrun.Options) (err error) {
	options.NoKVCache = c.noKV
	options.CacheSize = c.size
	options.KVDir, err = c.directory()
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

func cacheCommand() *command {
	return &command{
		name:     "cache",
		synopsis: "[list | rm NAME... | clean] [--cache-dir DIR] [--json]",
		summary:  "show or delete the models that were imported on first use",
		about: `Lists the packs in the cache: their names, sizes, the models that they were made from and when they were last used. rm deletes some of them, clean all. The models themselves stay, and are imported again when they are used.

--json prints {"dir":"…","packs":[{"name":"…","bytes":…,"source":"…","used":"…"}]}.`,
		examples: []example{
			{"llmrun cache", "what is there"},
			{"llmrun cache rm qwen2.5-1.5b-q4_0-0123456789abcdef.pack", "delete one pack"},
			{"llmrun cache clean", "delete all"},
		},
		prepare: func(f *flagSet) action {
			c := &cacheCommandFlags{}
			f.group("Cache")
			f.text(&c.cache.dir, "cache-dir", "DIR", "the directory; without it, llmrun in the user's cache directory")
			f.group("Output")
			f.toggle(&c.json, "json", "print one JSON object")
			return c.run
		},
	}
}

// cacheCommandFlags are the flags of cache.
type cacheCommandFlags struct {
	cache cacheFlags
	json  bool
}

func (c *cacheCommandFlags) run(_ context.Context, s *streams, args []string) error {
	dir, err := c.cache.directory()
	if err != nil {
		return err
	}
	verb := "list"
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch {
	case verb == "rm" && len(args) == 0:
		return usagef("rm needs the names of packs, as llmrun cache shows them")
	case verb == "rm":
		return removePacks(dir, args)
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	}
	packs, err := llmrun.CachedPacks(dir)
	if err != nil {
		return err
	}
	switch verb {
	case "list":
		return c.list(s, dir, packs)
	case "clean":
		var names []string
		total := int64(0)
		for _, p := range packs {
			names, total = append(names, p.Name), total+p.Bytes
		}
		if err := removePacks(dir, names); err != nil {
			return err
		}
		kept, err := llmrun.CleanCachedKV(dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s deleted, %s freed\n", countPacks(len(names)), formatBytes(total))
		if kept.Files > 0 {
			fmt.Fprintf(s.out, "keys and values deleted, %s freed\n", formatBytes(kept.Bytes))
		}
		return nil
	}
	return usagef("there is no %q: it is list, rm or clean", verb)
}

// removePacks deletes packs by name, and goes on behind one that fails.
func removePacks(dir string, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, llmrun.RemoveCachedPack(dir, name))
	}
	return err
}

// list prints the packs, those first that were used last.
func (c *cacheCommandFlags) list(s *streams, dir string, packs []llmrun.CachedPack) error {
	kept, err := llmrun.CachedKV(dir)
	if err != nil {
		return err
	}
	if c.json {
		if packs == nil {
			packs = []llmrun.CachedPack{} // an empty list rather than null
		}
		return s.out.json(struct {
			Dir   string              `json:"dir"`
			Packs []llmrun.CachedPack `json:"packs"`
			KV    llmrun.KeptKV       `json:"kv"`
		}{dir, packs, kept})
	}
	total := int64(0)
	for _, p := range packs {
		total += p.Bytes
		used := "never"
		if !p.Used.IsZero() {
			used = p.Used.Local().Format(time.DateTime)
		}
		fmt.Fprintf(s.out, "%10s  %-19s  %s\n", formatBytes(p.Bytes), used, strings.Map(visibleRune, p.Name))
		if p.Source != "" {
			fmt.Fprintf(s.out, "%33s%s\n", "from ", strings.Map(visibleRune, p.Source))
		}
	}
	fmt.Fprintf(s.out, "%s, %s in %s\n", countPacks(len(packs)), formatBytes(total), dir)
	if kept.Files > 0 {
		fmt.Fprintf(s.out, "keys and values of prompts and sessions: %s, of which sessions need %s\n", formatBytes(kept.Bytes), formatBytes(kept.SessionBytes))
	}
	return nil
}

func countPacks(n int) string {
	if n == 1 {
		return "1 pack"
	}
	return fmt.Sprintf("%d packs", n)
}
