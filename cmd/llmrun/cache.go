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
	ttl  time.Duration

	writes  int64  // bytes a day; 0 = the library's default
	keyFile string // "": keys, values and sessions are not encrypted
}

// addDir declares the flags for the directory and the size of the cache.
func (c *cacheFlags) addDir(f *cli.FlagSet) {
	c.addPath(f)
	f.Value("cache-size", "SIZE", "most bytes in the cache directory, such as 20G, of which keys and values use at most a quarter; default: 32G, or a third of the free disk space if that is less. The least recently used files are deleted first", func(text string) (err error) {
		c.size, err = parseSize(text)
		return err
	})
}

// addPath declares the flag for the directory alone.
func (c *cacheFlags) addPath(f *cli.FlagSet) {
	f.Text(&c.dir, "cache-dir", "DIR", "directory of imported models, sessions and the prefix cache; default: llmrun in the user's cache directory")
}

// add declares the flags of commands that import models on first use.
func (c *cacheFlags) add(f *cli.FlagSet) {
	f.Group("Import on first use")
	f.Toggle(&c.off, "no-import", "use the model file directly and write nothing; loading takes longer")
	f.Toggle(&c.noKV, "no-kv-cache", "neither save nor reuse keys and values of prompts that share a prefix")
	f.Value("kv-ttl", "AGE", "delete keys and values, and sessions, that were not used for this long, such as 12h or 30d; default: keep them until there is no room", func(text string) (err error) {
		c.ttl, err = parseAge(text)
		return err
	})
	c.addWrites(f)
	c.addDir(f)
	c.addKey(f)
	for _, name := range []string{"no-kv-cache", "kv-ttl", "cache-writes", "cache-dir", "cache-size"} {
		f.Setting(name)
	}
}

// addWrites declares the flag for the limit of writes of a day.
func (c *cacheFlags) addWrites(f *cli.FlagSet) {
	f.Value("cache-writes", "SIZE", "most bytes of keys and values to write to the cache directory a day, by all processes, because flash wears out: 0 for none, unlimited, or a size such as 20G; default: 16G. Beyond it, prompts and sessions are saved as text alone, and a conversation must fit in memory", func(text string) (err error) {
		c.writes, err = parseWrites(text)
		return err
	})
}

// addKey declares the flag for the key of keys, values and sessions.
func (c *cacheFlags) addKey(f *cli.FlagSet) {
	f.Text(&c.keyFile, "cache-key-file", "FILE", "encrypt sessions, and keys and values on disk, with the key in FILE, and use only those: 32 random bytes that only you may read")
	f.Setting("cache-key-file")
}

// sessions returns where sessions, keys and values are.
func (c *cacheFlags) sessions(dir string) llmrun.SessionDir {
	return llmrun.SessionDir{Path: dir, KeyFile: c.keyFile}
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

// applyKV sets the options of keys and values.
func (c *cacheFlags) applyKV(options *llmrun.Options) {
	options.Cache.NoKV, options.Cache.KVTTL, options.Cache.KeyFile = c.noKV, c.ttl, c.keyFile
	options.Cache.DailyWrites = c.writes
}

// apply sets the cache options for opening a model. Without a cache directory the model still
// runs, uncached.
func (c *cacheFlags) apply(options *llmrun.Options) {
	c.applyKV(options)
	if c.off {
		return
	}
	if dir, err := c.directory(); err == nil {
		options.Cache.Dir, options.Cache.Size = dir, c.size
	}
}

// applySessions sets the options for saving sessions, also for models that are not imported.
func (c *cacheFlags) applySessions(options *llmrun.Options) (err error) {
	c.applyKV(options)
	options.Cache.Size = c.size
	options.Cache.KVDir, err = c.directory()
	return err
}

// parseWrites reads the limit of writes of a day as the library's option.
func parseWrites(text string) (int64, error) {
	switch text {
	case "0":
		return llmrun.NoWrites, nil
	case "unlimited":
		return llmrun.NoLimit, nil
	}
	n, err := parseSize(text)
	if err != nil {
		return 0, fmt.Errorf("must be 0, unlimited, or a size such as 500M or 20G, not %s", quoteSize(text))
	}
	return n, nil
}

// parseSize reads a number of bytes with a unit of 1024: 500M, 20G, 1.5T.
func parseSize(text string) (int64, error) {
	units := map[string]float64{"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
	number := strings.TrimRight(strings.ToUpper(text), "KMGTIB")
	unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text)[len(number):], "B"), "I")
	factor, known := units[unit]
	n, err := strconv.ParseFloat(number, 64)
	whole := unit != "" || number != strings.ToUpper(text) || n >= 1024 && n == math.Trunc(n) // otherwise the unit is forgotten
	if err != nil || !known || !whole || !(n*factor >= 1 && n*factor < math.MaxInt64/2) {
		return 0, fmt.Errorf("must be a size such as 500M or 20G, not %s", quoteSize(text))
	}
	return int64(n * factor), nil
}

// parseAge reads a duration: 90m, 12h, 30d, 2w.
func parseAge(text string) (time.Duration, error) {
	days := map[byte]float64{'d': 1, 'w': 7}
	if last := len(text) - 1; last > 0 && days[text[last]] > 0 {
		n, err := strconv.ParseFloat(text[:last], 64)
		if hours := n * days[text[last]] * 24; err == nil && hours > 0 && hours < math.MaxInt64/float64(time.Hour) {
			return time.Duration(hours * float64(time.Hour)), nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fmt.Errorf("must be an age such as 90m, 12h, 30d or 2w, not %q", text)
}

func cacheCommand() *cli.Command {
	return &cli.Command{
		Name:     "cache",
		Synopsis: "[list | rm NAME... | clean [--older AGE]] [--cache-dir DIR] [--cache-key-file FILE] [--json]",
		Summary:  "list or delete models that were imported on first use",
		About: `Lists the packs in the cache with their size, source model and time of last use, and the size of the keys and values of prompts and sessions. rm deletes packs by name. clean deletes all packs, and the keys and values that no session needs; with --older, only what was not used for that long, and then also sessions. The source models stay and are imported again on their next use.

--json prints {"dir":"…","packs":[{"name":"…","bytes":…,"source":"…","used":"…"}],"kv":{"files":…,"bytes":…,"session_bytes":…}} for list and {"freed":…} for rm and clean.`,
		Examples: []cli.Example{
			{Line: "llmrun cache", Purpose: "list the packs"},
			{Line: "llmrun cache rm qwen2.5-1.5b-q4_0-0123456789abcdef.pack", Purpose: "delete one pack"},
			{Line: "llmrun cache clean", Purpose: "delete all packs"},
			{Line: "llmrun cache clean --older 30d", Purpose: "delete what was not used for 30 days, sessions too"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &cacheCommandFlags{}
			c.add(f)
			c.cache.addKey(f)
			f.Group("What to delete")
			f.Value("older", "AGE", "with clean, only what was not used for this long, such as 12h or 30d, sessions included", func(text string) (err error) {
				c.older, err = parseAge(text)
				return err
			})
			return c.dispatch("a pack, as llmrun cache lists it",
				verb{"list", 0, 0, c.anyAge(c.list)},
				verb{"rm", 1, anyNumber, c.anyAge(c.remove)},
				verb{"clean", 0, 0, c.clean})
		},
	}
}

// cacheCommandFlags are the flags of cache.
type cacheCommandFlags struct {
	storeFlags
	older time.Duration // 0 = of any age
}

// anyAge refuses --older with an action other than clean.
func (c *cacheCommandFlags) anyAge(run func(*cli.Streams, string, []string) error) func(*cli.Streams, string, []string) error {
	return func(s *cli.Streams, dir string, names []string) error {
		if c.older > 0 {
			return cli.Usagef("--older: only clean deletes by age")
		}
		return run(s, dir, names)
	}
}

// list prints the packs, the most recently used first.
func (c *cacheCommandFlags) list(s *cli.Streams, dir string, _ []string) error {
	packs, err := llmrun.CachedPacks(dir)
	if err != nil {
		return err
	}
	saved, err := c.cache.sessions(dir).KV()
	if err != nil {
		return err
	}
	if err := c.noteUnreadable(s, dir); err != nil {
		return err
	}
	if c.json {
		return s.Out.WriteJSON(struct {
			Dir   string              `json:"dir"`
			Packs []llmrun.CachedPack `json:"packs"`
			KV    llmrun.SavedKV      `json:"kv"`
		}{dir, notNull(packs), saved})
	}
	for _, p := range packs {
		used := "never"
		if !p.Used.IsZero() {
			used = p.Used.Local().Format(time.DateTime)
		}
		fmt.Fprintf(s.Out, "%10s  %-19s  %s\n", cli.FormatBytes(p.Bytes), used, cli.VisibleLine(p.Name))
		if p.Source != "" {
			fmt.Fprintf(s.Out, "%33s%s\n", "from ", cli.VisibleLine(p.Source))
		}
	}
	fmt.Fprintf(s.Out, "%s, %s in %s\n", countOf(len(packs), "pack"), cli.FormatBytes(packBytes(packs)), cli.VisibleLine(dir))
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
	if c.older > 0 {
		return c.expire(s, dir)
	}
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
	saved, err := c.cache.sessions(dir).Clean()
	if err != nil {
		return err
	}
	if err := c.noteUnreadable(s, dir); err != nil {
		return err
	}
	return c.deleted(s, packs, saved)
}

// expire deletes what was not used for the age of --older.
func (c *cacheCommandFlags) expire(s *cli.Streams, dir string) error {
	gone, err := c.cache.sessions(dir).Expire(time.Now().Add(-c.older))
	if err != nil {
		return err
	}
	if gone.Sessions > 0 && !c.json {
		fmt.Fprintf(s.Out, "%s deleted\n", countOf(gone.Sessions, "session"))
	}
	return c.deleted(s, gone.Packs, gone.KV)
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
	if saved.Bytes > 0 {
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
