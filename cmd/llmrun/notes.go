package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/notes"
)

func indexCommand() *cli.Command {
	return &cli.Command{
		Name:     "index",
		Synopsis: "DIR [flags]",
		Summary:  "index a directory of notes for search",
		About: `Reads the notes of a directory, such as a vault of Obsidian, so that search and run --notes find passages in them: files that end in .md, .markdown or .txt, but hidden ones and those that .gitignore files or Obsidian's settings leave out. Links out of the directory are not followed.

Without -m, notes are found by their words (BM25). With an embedding model, they are found by their meaning too: a vector of each passage is computed, and the index remembers the model, so that the next index, search and run --notes need no -m. Another model, or other options of it, are refused unless --reembed computes all vectors again.

The index is one file in the cache directory. It holds hashes of words and vectors of passages, and no text. The next time, only notes whose content has changed are computed, and only passages whose text is new are embedded: those of a note that was renamed or copied are not. After Ctrl-C, a kill or a power cut the same command goes on behind the last finished note.

--json prints {"dir":"…","file":"…","encoder":"…","notes":…,"passages":…,"computed":…,"reused":…,"removed":…,"embedded":…,"vectors":…,"skipped":…}: the directory and the index, the embedding model ("" without one), notes and passages there, notes that were computed, found unchanged and removed, passages that were embedded and that have a vector, and files that could not be read.`,
		Brief: `Reads the notes of a directory, so that search and run --notes find passages in them. The next time, only notes whose content has changed are computed.`,
		Examples: []cli.Example{
			{Line: "llmrun index ~/vault", Purpose: "index a vault by its words"},
			{Line: "llmrun index ~/vault -m bge-small --ram 128MiB", Purpose: "by their meaning too, within a limit of memory"},
			{Line: `llmrun index ~/vault -m nomic.gguf --query-prefix "search_query: " --passage-prefix "search_document: "`, Purpose: "with the prefixes that the model's authors name, which a GGUF file does not have"},
			{Line: "llmrun index ~/vault --json", Purpose: "for a script"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &notesFlags{}
			c.add(f)
			c.addIndexing(f)
			return c.index
		},
	}
}

func searchCommand() *cli.Command {
	return &cli.Command{
		Name:     "search",
		Synopsis: "DIR TEXT [flags]",
		Summary:  "find passages in a directory of notes",
		About: `Finds the passages of notes that match a question best, the best one first, one of each note. It brings the index up to date first, as llmrun index does; where that is not possible, as on a full disk, a line says so, and the index is searched as it is. Words match without regard to case, accents and the plural; scripts without spaces match by pairs of characters. If the index has an embedding model (llmrun index DIR -m MODEL), passages are found by their meaning too, and both rankings are fused. A reranker sorts the best ones once more.

--json prints {"hits":[{"file":"…","start":…,"end":…,"score":…,"text":"…"}]}: the file below the directory, where the passage starts and ends in bytes, a score that compares hits of one search, and the text.`,
		Brief: `Finds the passages of notes that match a question best, the best one first, one of each note.`,
		Examples: []cli.Example{
			{Line: `llmrun search ~/vault "When is the report due?"`, Purpose: "the notes that say it"},
			{Line: `llmrun search ~/vault "budget" --most 3 --json`, Purpose: "three hits, for a script"},
			{Line: `llmrun search ~/vault "Who pays for repairs?" --rerank bge-reranker`, Purpose: "sorted by a model that reads question and passage together"},
			{Line: `llmrun search ~/vault "lease" --no-update`, Purpose: "without looking for changes first"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &notesFlags{}
			c.add(f)
			f.Group("Search")
			c.vault.addReranker(f, "")
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
	vault       vaultFlags
	search      notes.SearchOptions
	noUpdate    bool
	json, quiet bool
}

func (c *notesFlags) add(f *cli.FlagSet) {
	c.vault = vaultFlags{cache: &c.cache, ram: &c.ram}
	c.vault.addEncoder(f)
	f.Group("Memory")
	addRAM(f, &c.ram, "the available memory")
	f.Setting("ram").Named("memory budget")
	f.Group("Cache")
	f.Text(&c.cache.dir, "cache-dir", "DIR", "directory of the index and of imported models; default: llmrun in the user's cache directory")
	f.Setting("cache-dir")
	f.Group("Output")
	f.Toggle(&c.json, "json", "print one JSON object")
	f.Toggle(&c.quiet, "q quiet", "print nothing on standard error")
}

// addIndexing declares the flags of an encoder that an index remembers.
func (c *notesFlags) addIndexing(f *cli.FlagSet) {
	own := &c.vault.own
	f.Group("Vectors")
	f.Count(&own.Dimensions, "dimensions", "D", "keep the first D elements of the vectors, for models that are trained for it; default: all", 1, math.MaxInt32)
	f.Choice(&own.Pooling, "pooling", "HOW", "mean, cls (the first token) or last of the network's states; default: the model's own way", "mean", "cls", "last")
	f.OptionalText(&own.QueryPrefix, "query-prefix", "TEXT", "put TEXT before each question, instead of what the model's files name")
	f.OptionalText(&own.PassagePrefix, "passage-prefix", "TEXT", "put TEXT before each passage, instead of what the model's files name")
	f.Toggle(&c.vault.reembed, "reembed", "compute all vectors again, if the index has those of another model or of other options")
}

// open opens the notes of a directory.
func (c *notesFlags) open(ctx context.Context, s *cli.Streams, dir string) (*openedVault, error) {
	if c.quiet {
		s.ErrTerminal, s.Quiet = false, true
	}
	if err := cli.CheckExists("DIR", dir); err != nil {
		return nil, err
	}
	if err := c.vault.check(); err != nil {
		return nil, err
	}
	return c.vault.open(ctx, s, dir)
}

// indexReport is the JSON object of index.
type indexReport struct {
	Dir     string `json:"dir"`
	File    string `json:"file"`
	Encoder string `json:"encoder"` // "" without one
	notes.Updated
}

// index updates an index and says what it holds.
func (c *notesFlags) index(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("name one directory of notes: llmrun index DIR")
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	v, err := c.open(ctx, s, args[0])
	if err != nil {
		return err
	}
	defer v.Close()
	if c.vault.words {
		if err := v.Forget(); err != nil {
			return err
		}
	}
	done, err := updateVault(ctx, s, v.Vault)
	if err != nil {
		return cli.Interruption(ctx, err)
	}
	if c.json {
		return s.Out.WriteJSON(indexReport{args[0], v.File(), v.name, done})
	}
	fmt.Fprintf(s.Out, "%s, %s; %d computed, %d unchanged, %d removed\n", countOf(done.Notes, "note"), countOf(done.Passages, "passage"), done.Computed, done.Reused, done.Removed)
	if v.engine != nil {
		fmt.Fprintf(s.Out, "%s embedded with %s, %d of %d have a vector\n", countOf(done.Embedded, "passage"), cli.VisibleLine(v.name), done.Vectors, done.Passages)
	}
	return nil
}

// updateVault updates an index and shows how far it is.
func updateVault(ctx context.Context, s *cli.Streams, v *notes.Vault) (notes.Updated, error) {
	reading := cli.NewMeter(s, "indexing", func(n int64) string { return countOf(int(n), "note") })
	defer reading.Finish()
	var embedding *cli.Meter
	defer func() { embedding.Finish() }()
	return v.UpdateWith(ctx, func(at notes.UpdateProgress) {
		if !at.Embedding {
			reading.Update(int64(at.Done), int64(at.Total))
			return
		}
		if at.Done == 0 { // the time that is left is that of this work alone
			reading.Finish()
			embedding = cli.NewMeter(s, "embedding", func(n int64) string { return countOf(int(n), "passage") })
		}
		embedding.Update(int64(at.Done), int64(at.Total))
	})
}

// refreshVault updates an index before a search. Where it cannot be updated, as on a full disk, the search finds what it had.
func refreshVault(ctx context.Context, s *cli.Streams, v *notes.Vault) error {
	_, err := updateVault(ctx, s, v)
	if err == nil || ctx.Err() != nil || errors.Is(err, notes.ErrOtherEncoder) {
		return err
	}
	if n, damaged := v.Notes(); damaged != nil || n == 0 {
		return err
	}
	s.Note(fmt.Sprintf("the index is not up to date, and changes of the notes may be missing: %v", err))
	return nil
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
	v, err := c.open(ctx, s, args[0])
	if err != nil {
		return err
	}
	defer v.Close()
	if c.noUpdate {
		if n, err := v.Notes(); err == nil && n == 0 { // otherwise the search reports it
			return fmt.Errorf("the index has no notes of %s: leave out --no-update", args[0])
		}
	} else if err := refreshVault(ctx, s, v.Vault); err != nil {
		return cli.Interruption(ctx, err)
	}
	hits, err := c.vault.search(ctx, s, v, args[1], c.search)
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
