package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/jobs"
)

func summarizeCommand() *cli.Command {
	return &cli.Command{
		Name:     "summarize",
		Synopsis: "FILE|DIR|- ... [-m MODEL] [flags]",
		Summary:  "summarize documents of any length",
		About: `Summarizes documents: text, Markdown, HTML and EPUB; all of a directory, or standard input for -. A document that is longer than the context is divided at headings, paragraphs and sentences; each part is summarized, and the summaries are merged until they are short enough. The document is read in pieces, so memory does not grow with it. Other formats are refused with the command that makes text of them.

Each finished part is saved in the cache directory before the next one begins. The same command continues after a kill or a power cut where it was, returns a finished result at once, and after a change of a document computes only the parts that changed. llmrun jobs lists, shows and deletes what is saved. The answer is greedy, and the same each time, unless --temp is given.

--schema FILE extracts fields in place of a summary: each part gives JSON that is valid in the JSON Schema in FILE, as with --schema of run. They are merged without the model: objects field by field; lists in the order of the document, without repeats; of other values the one that most parts give, the first of equally frequent ones; null and what is empty only if no part gives more. Titles and descriptions in the schema tell the model what is meant.

--json prints one object for a document: file, summary, fields (with --schema, the same as JSON), parts (start and end in bytes of the text, heading, summary), computed_parts, reused_parts (computed by an earlier run), computed_merges and reused_merges of summaries, repeats (answers that were stopped because the model repeated itself), and job, its name for llmrun jobs; for several documents a list of such objects, with error in place of the rest for one that failed.`,
		Brief: `Summarizes documents of any length: text, Markdown, HTML and EPUB; all of a directory, or standard input for -. The same command continues where an interrupted one was.`,
		Examples: []cli.Example{
			{Line: "llmrun summarize report.md", Purpose: "summarize a document with " + defaultModel},
			{Line: "llmrun summarize -m model.gguf notes/ -o summaries/", Purpose: "each document of a directory into a file of its own"},
			{Line: "pdftotext -layout paper.pdf - | llmrun summarize - -m model.gguf --length 150", Purpose: "a PDF file, in about 150 words"},
			{Line: "llmrun summarize -m model.gguf minutes/ --schema fields.json -o fields/", Purpose: "the same fields of each document, as JSON"},
			{Line: `llmrun summarize book.epub -m model.gguf --cite --instructions "Who decides what, and when?"`, Purpose: "statements with the parts from which they come"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			c := &summarizeFlags{}
			c.add(f)
			return c.run
		},
	}
}

// summarizeFlags are the flags of summarize.
type summarizeFlags struct {
	model       modelFlags
	options     llmrun.SummarizeOptions
	temperature *float32
	seed        *uint64
	schema      string // file with the schema of fields; "": summaries
	until       string // time of the day; "": no end
	pauses      jobs.Pauses
	nice        bool
	out         string // directory; "": standard output
	json, quiet bool
}

func (c *summarizeFlags) add(f *cli.FlagSet) {
	f.Everyday(
		everydayModel,
		"length: about N words", "instructions: what the summary is for", "language: such as French; default: that of the document",
		"schema: extract fields instead: JSON that is valid in the JSON Schema in FILE", "cite: end each statement with the number of its part", "o: write each summary to a file in DIR",
		"ram: memory limit, such as 1.5GiB", "ctx: tokens of context, such as 8K", "json: print one JSON object", "q: print only the summary",
	)
	c.model.addAnswering(f)
	f.Group("Summary")
	f.Text(&c.options.Instructions, "instructions", "TEXT", "what the summary is for, and what it must not leave out")
	f.Text(&c.options.Language, "language", "NAME", "the language of the summary, such as French; default: that of the document")
	f.Count(&c.options.Words, "length", "N", "about N words; default: a twentieth of the document, but at least 200 and at most 1000", 1, 20000)
	f.Choice(&c.options.Method, "method", "HOW", "tree summarizes each part, then merges the summaries; refine reads part after part and extends one summary; default: tree", llmrun.SummarizeTree, llmrun.SummarizeRefine)
	f.Toggle(&c.options.Cite, "cite", "end each statement with the number of the part from which it comes, such as [3]; --json lists the parts")
	f.Text(&c.schema, "schema", "FILE", "extract fields instead of summarizing: JSON that is valid in the JSON Schema in FILE, from each part and merged")
	f.Count(&c.options.PartTokens, "part-tokens", "N", "at most N tokens in a part; default: up to 12288, as the context permits", 64, 1<<20)
	f.Toggle(&c.options.Again, "again", "compute everything, also parts that are saved")
	f.OptionalNumber(&c.temperature, "temp", "temperature; default: 0, which always takes the most likely token", 0, 100)
	f.Value("seed", "N", "with --temp, seed of the random numbers; default: 1", func(text string) error {
		seed, err := parseSeed(text)
		c.seed = &seed
		return err
	})
	f.Group("When it runs")
	f.Value("until", "HH:MM", "stop at this time of the day, such as 07:00; the same command continues", func(text string) error {
		c.until = text
		_, err := jobs.Until(text, time.Now())
		return err
	})
	f.Value("pause", "WHEN", "battery pauses while the machine runs on its battery, heat while it is about as hot as where its system slows it down, or battery,heat; Linux tells both", c.setPauses)
	f.Toggle(&c.nice, "nice", "yield to all other programs")
	f.Group("Output")
	f.Text(&c.out, "o", "DIR", "write the summary of FILE to DIR/FILE.summary.md, with --schema to DIR/FILE.fields.json; files of a directory keep their place in it")
	f.Toggle(&c.json, "json", "print one JSON object, or a list for several documents")
	f.Toggle(&c.quiet, "q quiet", "print no progress on standard error")
}

// setPauses parses the value of --pause.
func (c *summarizeFlags) setPauses(text string) error {
	for when := range strings.SplitSeq(text, ",") {
		switch when {
		case "battery":
			c.pauses.Battery = true
		case "heat":
			c.pauses.Heat = true
		default:
			return fmt.Errorf("must be battery, heat or battery,heat, not %q", text)
		}
	}
	return nil
}

// limit applies the flags about when the work runs. ctx ends at --until.
func (c *summarizeFlags) limit(ctx context.Context, s *cli.Streams) (context.Context, context.CancelFunc, error) {
	if c.pauses.Battery || c.pauses.Heat {
		c.pauses.System, c.pauses.Note, c.pauses.Now, c.pauses.Sleep = os.DirFS("/sys"), s.Note, time.Now, ended.Sleep
		c.options.Wait = c.pauses.Wait
	}
	if c.nice {
		if err := beNice(); err != nil {
			s.Note(fmt.Sprintf("--nice: %v", err))
		}
	}
	if c.until == "" {
		return ctx, func() {}, nil
	}
	end, err := jobs.Until(c.until, time.Now())
	if err != nil {
		return nil, nil, err
	}
	limited, check, cancel := jobs.EndAt(ctx, end, time.Now, fmt.Errorf("stopped at %s", c.until))
	pause := c.options.Wait
	c.options.Wait = func(ctx context.Context) error {
		if err := check(ctx); err != nil || pause == nil {
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
		return check(ctx) // pauses may be long
	}
	return limited, cancel, nil
}

// summaryReport is the JSON object of a document.
type summaryReport struct {
	File string `json:"file"`
	*llmrun.Summary
	Fields json.RawMessage `json:"fields,omitempty"` // with --schema
	Error  string          `json:"error,omitempty"`
}

// run opens the model and summarizes each document.
func (c *summarizeFlags) run(ctx context.Context, s *cli.Streams, args []string) error {
	inputs, err := findDocuments(s, args)
	if err != nil {
		return err
	}
	if c.quiet {
		s.ErrTerminal, s.Quiet = false, true
	}
	if err := checkOutputs(c.out, c.suffix(), inputs); err != nil {
		return err
	}
	if err := c.readSchema(s); err != nil {
		return err
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	first, err := inputs[0].open() // a wrong file fails before the model is loaded
	if err == nil {
		err = first.Close()
	}
	if err != nil && len(inputs) == 1 {
		return err
	}
	ctx, cancel, err := c.limit(ctx, s)
	if err != nil {
		return err
	}
	defer cancel()
	c.model.saveJobs = true
	engine, err := c.model.open(ctx, s)
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := needTokenizer(engine); err != nil {
		return err
	}
	c.options.Sampling = c.sampling(engine)
	err = c.summarizeAll(ctx, s, engine, inputs)
	return errors.Join(err, engine.Close())
}

// readSchema reads the file of --schema, and checks it before a model is loaded.
func (c *summarizeFlags) readSchema(s *cli.Streams) (err error) {
	if c.schema == "" {
		return nil
	}
	if c.options.Words != 0 || c.options.Cite || c.options.Method == llmrun.SummarizeRefine {
		return cli.Usagef("--length, --cite and --method refine have no meaning with --schema")
	}
	flags := constraintFlags{schema: c.schema}
	o, err := flags.read(s, nil)
	c.options.Schema = o.Schema
	return err
}

// suffix returns how files with results end.
func (c *summarizeFlags) suffix() string {
	if c.schema != "" {
		return fieldsSuffix
	}
	return summarySuffix
}

// sampling returns greedy sampling, or the model's own with the temperature of --temp.
func (c *summarizeFlags) sampling(engine *llmrun.Engine) (sampling llmrun.Sampling) {
	if c.temperature != nil && *c.temperature > 0 {
		sampling = engine.DefaultSampling()
		sampling.Temperature = *c.temperature
	}
	sampling.Seed = c.seed
	return sampling
}

// summarizeAll summarizes the documents in turn, and continues after one that fails.
func (c *summarizeFlags) summarizeAll(ctx context.Context, s *cli.Streams, engine *llmrun.Engine, inputs []*docInput) error {
	var reports []summaryReport
	var failed error
	for i, in := range inputs {
		summary, err := c.summarize(ctx, s, engine, in, i, len(inputs))
		if ctx.Err() != nil && err != nil {
			return errors.Join(failed, c.interrupted(ctx, s, err, i, len(inputs)))
		}
		report := summaryReport{File: in.name, Summary: summary}
		if err == nil && c.schema != "" {
			report.Fields = json.RawMessage(summary.Text)
		}
		switch {
		case err != nil:
			failed, report.Error, report.Summary = errors.Join(failed, err), err.Error(), nil
		case c.out != "":
			path, err := in.write(c.out, c.suffix(), summary.Text)
			if err != nil {
				return errors.Join(failed, err)
			}
			if !c.json {
				fmt.Fprintln(s.Out, cli.VisibleLine(path))
			}
		case !c.json:
			c.print(s, in, summary.Text, i, len(inputs))
		}
		reports = append(reports, report)
	}
	if !c.json {
		return failed
	}
	if len(inputs) == 1 {
		if failed != nil {
			return failed
		}
		return s.Out.WriteJSON(reports[0])
	}
	return errors.Join(failed, s.Out.WriteJSON(reports))
}

// interrupted says what becomes of a job that was interrupted.
func (c *summarizeFlags) interrupted(ctx context.Context, s *cli.Streams, err error, done, all int) error {
	text := "finished parts are saved; the same command continues"
	if all > 1 {
		text = fmt.Sprintf("%d of %d documents are done, and finished parts are saved; the same command continues", done, all)
	}
	s.Note(text)
	return cli.Interruption(ctx, err)
}

// print prints a summary, with the name of its document if there are several.
func (c *summarizeFlags) print(s *cli.Streams, in *docInput, text string, i, n int) {
	if n > 1 {
		if i > 0 {
			fmt.Fprintln(s.Out)
		}
		fmt.Fprintf(s.Out, "# %s\n\n", cli.VisibleLine(in.name))
	}
	s.Out.ModelText(text)
	s.Out.EndLine()
}

// summarize summarizes one document.
func (c *summarizeFlags) summarize(ctx context.Context, s *cli.Streams, engine *llmrun.Engine, in *docInput, i, n int) (*llmrun.Summary, error) {
	doc, err := in.open()
	if err != nil {
		return nil, err
	}
	defer doc.Close()
	progress := &summaryProgress{screen: cli.NewStatusLine(s), started: time.Now()}
	if n > 1 {
		progress.count, progress.name = fmt.Sprintf("%d/%d", i+1, n), cli.VisibleLine(in.name)
	}
	defer progress.finish()
	options := c.options
	options.Progress = progress.update
	summary, err := engine.Summarize(ctx, doc, options)
	progress.finish()
	if err == nil && summary.Repeats > 0 {
		s.Note(repeatsText(in.name, summary.Repeats))
	}
	if err == nil && !s.Quiet {
		s.Say(summaryText(summary))
	}
	return summary, errors.Join(err, doc.Close())
}

// repeatsText says that answers were stopped.
func repeatsText(name string, repeats int) string {
	return fmt.Sprintf("%s: the model repeated itself in %s, which ends there; smaller parts may help: --part-tokens", cli.VisibleLine(name), countOf(repeats, "answer"))
}

// summaryText describes what a summary took.
func summaryText(summary *llmrun.Summary) string {
	text := countOf(summary.Computed+summary.Reused, "part")
	if summary.Reused > 0 {
		text += fmt.Sprintf(" (%d saved by an earlier run)", summary.Reused)
	}
	if merges := summary.ComputedMerges + summary.ReusedMerges; merges > 0 {
		text += ", " + countOf(merges, "merge")
		if summary.ReusedMerges > 0 {
			text += fmt.Sprintf(" (%d saved)", summary.ReusedMerges)
		}
	}
	if summary.Job != "" {
		text += "; llmrun jobs show " + summary.Job + " prints the summary again"
	}
	return text
}

// summaryProgress shows the part under way and the time that is left, on a terminal.
type summaryProgress struct {
	screen      *cli.StatusLine // nil: no terminal
	count, name string          // of the document; "": there is one
	started     time.Time
	drawn       time.Time
}

// progressInterval is the time between two drawings.
const progressInterval = 200 * time.Millisecond

func (p *summaryProgress) update(at llmrun.SummaryProgress) {
	now := time.Now()
	if p.screen == nil || now.Sub(p.drawn) < progressInterval {
		return
	}
	p.drawn = now
	text := progressText(at, now.Sub(p.started))
	p.screen.Draw(func(columns int) string {
		if p.count == "" {
			return text
		}
		return cli.FitName(p.count, p.name, text, columns)
	})
}

// progressText describes how far a summary is, such as "part 7/23, 1:12 left".
func progressText(at llmrun.SummaryProgress, elapsed time.Duration) string {
	text := fmt.Sprintf("part %d/%d", at.Part, at.Parts)
	if at.Level > 0 {
		text = fmt.Sprintf("merge %d/%d", at.Part, at.Parts)
	}
	if at.Done > 0 {
		left := time.Duration(float64(elapsed) * float64(at.Total-at.Done) / float64(at.Done))
		text += fmt.Sprintf(", %s left", cli.FormatLeft(left))
	}
	return text
}

func (p *summaryProgress) finish() { p.screen.Clear() }
