package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/jobs"
	"github.com/llmrun/llmrun/store/vfs"
)

// serverFlags say where the server is.
type serverFlags struct {
	url string
}

func (c *serverFlags) add(f *cli.FlagSet) {
	c.url = "nats://127.0.0.1:4222"
	f.Group("Server")
	f.Text(&c.url, "nats", "URL", "the NATS server, which has JetStream turned on; default: nats://127.0.0.1:4222")
}

// open connects to the server, for a worker or, if lostAfter is 0, for others.
func (c *serverFlags) open(ctx context.Context, lostAfter time.Duration) (*queue, error) {
	return openQueue(ctx, c.url, lostAfter)
}

func submitCommand() *cli.Command {
	return &cli.Command{
		Name: "submit", Synopsis: "FILE|DIR ... [--nats URL] [flags]", Summary: "add documents to summarize",
		About: "Adds documents: text, Markdown, HTML and EPUB, also all of a directory. Prints a line for each: its job, and its name. A document that is there already, with the same options, is not added again.",
		Examples: []cli.Example{
			{Line: "llmworker submit --nats nats://server:4222 books", Purpose: "all documents of a directory"},
			{Line: "llmworker submit report.md --length 150", Purpose: "about 150 words"},
			{Line: "llmworker submit report.md --cite --language French", Purpose: "statements with their parts, in French"},
			{Line: "llmworker submit minutes --schema fields.json", Purpose: "the same fields of each document, as JSON"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &submitFlags{}
			c.add(f)
			return c.run
		},
	}
}

// maxPartTokens keeps a step with its text within the most that a server takes in a message, 1 MiB.
const maxPartTokens = 1 << 16

// maxSchema is the most bytes of a schema: each step has it, beside its text.
const maxSchema = 1 << 16

// submitFlags are the flags of submit.
type submitFlags struct {
	server serverFlags
	schema string // file with the schema of fields; "": summaries
	job    job
}

func (c *submitFlags) add(f *cli.FlagSet) {
	c.server.add(f)
	f.Group("Summary")
	f.Text(&c.job.Instructions, "instructions", "TEXT", "what the summary is for, and what it must not leave out")
	f.Text(&c.job.Language, "language", "NAME", "the language of the summary, such as French; default: that of the document")
	f.Count(&c.job.Words, "length", "N", "about N words; default: a twentieth of the document, but at least 200 and at most 1000", 1, 20000)
	f.Choice(&c.job.Method, "method", "HOW", "tree summarizes each part, then merges the summaries; refine reads part after part, on one worker at a time; default: tree", llmrun.SummarizeTree, llmrun.SummarizeRefine)
	f.Text(&c.schema, "schema", "FILE", "extract fields instead of summarizing: JSON that is valid in the JSON Schema in FILE, from each part and merged")
	f.Toggle(&c.job.Cite, "cite", "end each statement with the number of the part from which it comes, such as [3]")
	f.Count(&c.job.PartTokens, "part-tokens", "N", "at most N tokens in a part; default: as the first worker's memory permits", 64, maxPartTokens)
	f.OptionalNumber(&c.job.Temperature, "temp", "temperature; default: 0, which always takes the most likely token", 0, 100)
	f.Value("seed", "N", "with --temp, seed of the random numbers; default: 1", func(text string) error {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("must be a number from 0 on, not %q", text)
		}
		c.job.Seed = &seed
		return nil
	})
}

func (c *submitFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("name a document: llmworker submit FILE")
	}
	if err := c.readSchema(s); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	q, err := c.server.open(ctx, 0)
	if err != nil {
		return err
	}
	defer q.close()
	var failed error
	for _, arg := range args {
		failed = errors.Join(failed, filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			hidden := strings.HasPrefix(entry.Name(), ".") && path != arg
			switch {
			case err != nil:
				return err
			case entry.IsDir() && hidden:
				return filepath.SkipDir
			case entry.IsDir() || hidden:
				return nil
			}
			err = c.submit(ctx, s, q, path)
			if path != arg && errors.Is(err, llmrun.ErrNotText) {
				s.Note(err.Error()) // a directory has files of all kinds
				return nil
			}
			return err
		}))
	}
	return failed
}

// readSchema reads the file of --schema, and checks it before anything is submitted.
func (c *submitFlags) readSchema(s *cli.Streams) (err error) {
	if c.schema == "" {
		return nil
	}
	if c.job.Words != 0 || c.job.Cite || c.job.Method == llmrun.SummarizeRefine {
		return cli.Usagef("--length, --cite and --method refine have no meaning with --schema")
	}
	c.job.Schema, err = cli.ReadUpTo(s, "--schema", c.schema, maxSchema, nil)
	switch {
	case errors.Is(err, cli.ErrTooLong):
		return fmt.Errorf("--schema: %s has more than %s, the maximum for several machines", c.schema, cli.FormatBytes(maxSchema))
	case err != nil:
		return err
	case c.job.Schema == "":
		return fmt.Errorf("--schema: %s is empty", c.schema)
	}
	if err := (&llmrun.GenerateOptions{Schema: c.job.Schema}).CheckConstraint(); err != nil {
		return fmt.Errorf("--schema: %s: %w", c.schema, err)
	}
	return nil
}

// submit adds a document.
func (c *submitFlags) submit(ctx context.Context, s *cli.Streams, q *queue, path string) error {
	doc, err := llmrun.OpenDocument(path, os.TempDir())
	if err != nil {
		return err
	}
	defer doc.Close()
	j := c.job
	j.Document = filepath.ToSlash(path)
	id, err := q.submit(ctx, j, doc)
	if err == nil {
		fmt.Fprintf(s.Out, "%s  %s\n", id, cli.VisibleLine(path))
	}
	return errors.Join(err, doc.Close())
}

func workCommand() *cli.Command {
	return &cli.Command{
		Name: "work", Synopsis: "-m MODEL [--nats URL] [flags]", Summary: "compute parts of documents",
		About: "Takes parts of documents from the server, and stores their summaries there. All workers need the same model, and need not have the same memory. A worker may end at any moment: a part that is not stored is given to another one. A part is acknowledged when the server has stored its summary.",
		Examples: []cli.Example{
			{Line: "llmworker work -m model.gguf --nats nats://server:4222", Purpose: "work until Ctrl-C"},
			{Line: "llmworker work -m model.gguf --drain", Purpose: "work until there is nothing left to do"},
			{Line: "llmworker work -m model.gguf --ram 2GiB --until 07:00", Purpose: "in 2 GiB, until seven"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &workFlags{}
			c.add(f)
			return c.run
		},
	}
}

// workFlags are the flags of work.
type workFlags struct {
	server  serverFlags
	lost    int // seconds
	model   string
	cache   string
	options llmrun.Options
	until   string
	drain   bool
}

func (c *workFlags) add(f *cli.FlagSet) {
	c.server.add(f)
	c.lost = 60
	f.Count(&c.lost, "lost-after", "N", "give the work of a worker that tells nothing for N seconds to another one; the same for all workers; default: 60", 1, 86400)
	f.Group("Model")
	f.Text(&c.model, "m model", "PATH", "GGUF file, Hugging Face directory, or pack")
	f.Value("ram", "SIZE", "memory limit, such as 1.5GiB; default: the available memory", func(text string) (err error) {
		c.options.Memory.RAM, err = llmrun.ParseMemory(text)
		return err
	})
	f.Count(&c.options.Context, "ctx", "N", "most tokens of context; default: the model's", 1, 1<<30)
	f.Count(&c.options.Threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
	f.Text(&c.cache, "cache-dir", "DIR", "directory of imported models; default: llmrun in the user's cache directory")
	f.Group("When it runs")
	f.Value("until", "HH:MM", "stop at this time of the day, such as 07:00", func(text string) error {
		c.until = text
		_, err := jobs.Until(text, time.Now())
		return err
	})
	f.Toggle(&c.drain, "drain", "stop when all documents are done")
}

func (c *workFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if c.model == "" {
		return cli.Usagef("-m names the model")
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	var check func(context.Context) error // nil: nothing ends the work
	if c.until != "" {
		end, err := jobs.Until(c.until, time.Now())
		if err != nil {
			return err
		}
		var cancel func()
		ctx, check, cancel = jobs.EndAt(ctx, end, time.Now, fmt.Errorf("stopped at %s", c.until))
		defer cancel()
	}
	patience := time.Duration(c.lost) * time.Second
	q, err := c.server.open(ctx, patience)
	if err != nil {
		return err
	}
	defer q.close()
	if c.cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("the user has no cache directory; --cache-dir names one: %w", err)
		}
		c.cache = filepath.Join(base, "llmrun")
	}
	c.options.Cache.Dir, c.options.Notify = c.cache, s.Note
	engine, err := llmrun.OpenContext(ctx, c.model, c.options)
	if err != nil {
		return err
	}
	defer engine.Close()
	dir, err := os.MkdirTemp("", "llmworker")
	if err != nil {
		return err
	}
	w := &worker{queue: q, engine: engine, dir: dir, lostAfter: patience, note: s.Note, wait: check}
	return errors.Join(w.run(ctx, c.drain), w.close(), os.RemoveAll(dir), engine.Close())
}

func resultsCommand() *cli.Command {
	return &cli.Command{
		Name: "results", Synopsis: "[--nats URL] [-o DIR] [--wait] [--json]", Summary: "print or write the summaries that are done",
		About: "Prints the summary of each document that is done, or writes it to DIR/DOCUMENT.JOB.summary.md, and fields to DIR/DOCUMENT.JOB.fields.json. Says which documents are not done yet, and which failed.\n\n--json prints a list of objects, as llmrun summarize --json does, with file, the document's name, and error for one that failed.",
		Examples: []cli.Example{
			{Line: "llmworker results", Purpose: "print what is done"},
			{Line: "llmworker results -o summaries --wait", Purpose: "wait for all documents, and write their summaries to files"},
			{Line: "llmworker results --json", Purpose: "with the parts"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &resultsFlags{}
			c.add(f)
			return c.run
		},
	}
}

// resultsFlags are the flags of results.
type resultsFlags struct {
	server     serverFlags
	out        string
	wait, json bool
}

func (c *resultsFlags) add(f *cli.FlagSet) {
	c.server.add(f)
	f.Group("Output")
	f.Text(&c.out, "o", "DIR", "write each summary to a file in DIR")
	f.Toggle(&c.wait, "wait", "wait until all documents are done")
	f.Toggle(&c.json, "json", "print a list of JSON objects")
}

func (c *resultsFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	q, err := c.server.open(ctx, 0)
	if err != nil {
		return err
	}
	defer q.close()
	ids, err := q.ids(ctx)
	if err != nil {
		return err
	}
	list, open := []result{}, 0
	var failed error
	for _, id := range ids {
		r, done, err := q.result(ctx, id)
		for ; c.wait && !done && err == nil; r, done, err = q.result(ctx, id) {
			if err := ended.Sleep(ctx, fetchWait); err != nil {
				return err
			}
		}
		switch {
		case err != nil:
			return err
		case !done:
			open++
			continue
		case r.Error != "":
			failed = errors.Join(failed, errors.New(r.Error))
		}
		list = append(list, r)
		if r.Error == "" && !c.json {
			if err := c.write(s, id, &r); err != nil {
				return err
			}
		}
	}
	if open > 0 {
		s.Note(fmt.Sprintf("%d of %d documents are not done yet", open, len(ids)))
	}
	if c.json {
		failed = errors.Join(failed, s.Out.WriteJSON(list))
	}
	return failed
}

// write prints the summary of a document, or writes it to a file.
func (c *resultsFlags) write(s *cli.Streams, id string, r *result) error {
	if c.out == "" {
		fmt.Fprintf(s.Out, "# %s\n\n", cli.VisibleLine(r.Document))
		s.Out.ModelText(r.Text)
		s.Out.EndLine()
		fmt.Fprintln(s.Out)
		return nil
	}
	// A name from the server stays within the directory. Documents of the same name have different jobs.
	place := filepath.Join(c.out, filepath.FromSlash(filepath.Clean("/"+r.Document)))
	path := place + "." + id + ".summary.md"
	if r.Fields != nil {
		path = place + "." + id + ".fields.json"
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := vfs.WriteFile(vfs.OS(), path, []byte(strings.TrimRight(r.Text, "\n")+"\n")); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, cli.VisibleLine(path))
	return nil
}
