package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/notes"
)

func indexCommand() *cli.Command {
	return &cli.Command{
		Name:     "index",
		Synopsis: "DIR [flags]",
		Summary:  "index a directory of notes for search",
		About: `Reads the notes of a directory, such as a vault of Obsidian, so that search and run --notes find passages in them: files that end in .md, .markdown or .txt, but hidden ones and those that .gitignore files or Obsidian's settings leave out. Links out of the directory are not followed.

The index is one file in the cache directory. It holds hashes of words, and no text. The next time, only notes whose content has changed are computed. After Ctrl-C, a kill or a power cut the same command goes on behind the last finished note.

--json prints {"dir":"…","file":"…","notes":…,"passages":…,"computed":…,"reused":…,"removed":…,"embedded":…,"vectors":…,"skipped":…}: the directory and the index, notes and passages there, notes that were computed, found unchanged and removed, passages that were embedded and that have a vector, and files that could not be read.`,
		Brief: `Reads the notes of a directory, so that search and run --notes find passages in them. The next time, only notes whose content has changed are computed.`,
		Examples: []cli.Example{
			{Line: "llmrun index ~/vault", Purpose: "index a vault by its words"},
			{Line: "llmrun index ~/vault --ram 128MiB", Purpose: "within a limit of memory"},
			{Line: "llmrun index ~/vault --json", Purpose: "for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &notesFlags{}
			c.add(f)
			return c.index
		},
	}
}

func searchCommand() *cli.Command {
	return &cli.Command{
		Name:     "search",
		Synopsis: "DIR TEXT [flags]",
		Summary:  "find passages in a directory of notes",
		About: `Finds the passages of notes that match a question best, the best one first, one of each note. It brings the index up to date first, as llmrun index does. Words match without regard to case, accents and the plural; scripts without spaces match by pairs of characters.

--json prints {"hits":[{"file":"…","start":…,"end":…,"score":…,"text":"…"}]}: the file below the directory, where the passage starts and ends in bytes, a score that compares hits of one search, and the text.`,
		Brief: `Finds the passages of notes that match a question best, the best one first, one of each note.`,
		Examples: []cli.Example{
			{Line: `llmrun search ~/vault "When is the report due?"`, Purpose: "the notes that say it"},
			{Line: `llmrun search ~/vault "budget" --most 3 --json`, Purpose: "three hits, for a script"},
			{Line: `llmrun search ~/vault "lease" --no-update`, Purpose: "without looking for changes first"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &notesFlags{}
			c.add(f)
			f.Group("Search")
			c.search.Most = 10
			f.Count(&c.search.Most, "most", "N", "at most N hits; default: 10", 1, 1000)
			f.Count(&c.search.PerNote, "per-note", "N", "at most N hits of the same note; default: 1", 1, 1000)
			f.Toggle(&c.noUpdate, "no-update", "search the index as it is, without looking for changes of the notes")
			return c.find
		},
	}
}

// notesFlags are the flags of index and search.
type notesFlags struct {
	cache       cacheFlags
	ram         ramFlag
	search      notes.SearchOptions
	noUpdate    bool
	json, quiet bool
}

func (c *notesFlags) add(f *cli.FlagSet) {
	f.Group("Memory")
	addRAM(f, &c.ram, "the available memory")
	f.Group("Cache")
	f.Text(&c.cache.dir, "cache-dir", "DIR", "directory of the index; default: llmrun in the user's cache directory")
	f.Group("Output")
	f.Toggle(&c.json, "json", "print one JSON object")
	f.Toggle(&c.quiet, "q quiet", "print nothing on standard error")
}

// open opens the notes of a directory, and says that there is no model of meaning.
func (c *notesFlags) open(s *cli.Streams, dir string) (*notes.Vault, error) {
	if c.quiet {
		s.ErrTerminal, s.Quiet = false, true
	}
	if err := cli.CheckExists("DIR", dir); err != nil {
		return nil, err
	}
	v, err := openVault(s, &c.cache, c.ram.bytes, dir)
	if err == nil {
		s.Note("notes are found by their words (BM25); no model is used")
	}
	return v, err
}

// openVault opens the notes of a directory with the index in the cache directory.
func openVault(s *cli.Streams, cache *cacheFlags, ram int64, dir string) (*notes.Vault, error) {
	where, err := cache.directory()
	if err != nil {
		return nil, err
	}
	return notes.OpenWith(dir, nil, notes.Options{File: notes.DefaultFile(where, dir), RAM: ram, Notify: s.Note})
}

// indexReport is the JSON object of index.
type indexReport struct {
	Dir  string `json:"dir"`
	File string `json:"file"`
	notes.Updated
}

// index updates an index and says what it holds.
func (c *notesFlags) index(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("name one directory of notes: llmrun index DIR")
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	v, err := c.open(s, args[0])
	if err != nil {
		return err
	}
	defer v.Close()
	done, err := updateVault(ctx, s, v)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if c.json {
		return s.Out.WriteJSON(indexReport{args[0], v.File(), done})
	}
	fmt.Fprintf(s.Out, "%s, %s; %d computed, %d unchanged, %d removed\n", countOf(done.Notes, "note"), countOf(done.Passages, "passage"), done.Computed, done.Reused, done.Removed)
	return nil
}

// updateVault updates an index and shows how far it is.
func updateVault(ctx context.Context, s *cli.Streams, v *notes.Vault) (notes.Updated, error) {
	bar := cli.NewMeter(s, "indexing", func(n int64) string { return countOf(int(n), "note") })
	defer bar.Finish()
	return v.UpdateWith(ctx, func(at notes.UpdateProgress) { bar.Update(int64(at.Done), int64(at.Total)) })
}

// foundReport is the JSON object of search.
type foundReport struct {
	Hits []notes.Hit `json:"hits"`
}

// find prints the hits of a search.
func (c *notesFlags) find(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) != 2 || args[1] == "" {
		return cli.Usagef(`name one directory of notes and what to find: llmrun search DIR "TEXT"`)
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	v, err := c.open(s, args[0])
	if err != nil {
		return err
	}
	defer v.Close()
	if !c.noUpdate {
		if _, err := updateVault(ctx, s, v); err != nil {
			return cli.Interruption(ctx, err)
		}
	}
	hits, err := v.Search(ctx, args[1], c.search)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if c.json {
		return s.Out.WriteJSON(foundReport{notNull(hits)})
	}
	if len(hits) == 0 {
		return errors.New("no passage has a word of the question")
	}
	for i := range hits {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintf(s.Out, "%s:%d-%d (%.3g)\n", cli.VisibleLine(hits[i].File), hits[i].Start, hits[i].End, hits[i].Score)
		s.Out.ModelText(hits[i].Text)
		s.Out.EndLine()
	}
	return nil
}
