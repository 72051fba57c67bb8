package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/lab/measure"
)

func recallCommand() *cli.Command {
	return &cli.Command{
		Name:     "recall",
		Synopsis: "-f FILE [-m MODEL] [--ctx LIST] [--kv LIST] [flags]",
		Summary:  "ask about facts in long contexts, with keys and values in every place and format",
		About: `Hides facts between the lines of a text, asks the model for them, and counts the right answers: passkeys (codes, things and titles), and questions about notes, whose answers are extracted from action items. It asks with all keys and values in memory, with a sixteenth of them in memory and the others on flash, restored from a saved session, and with page selection. Exact attention must give the same answers in all places, and so must page selection. Shorter documents are beginnings of the longest, so that each format prefills it once.

Prints tables in Markdown. The exit status is 1 if page selection is right in over 2 per cent fewer questions than exact attention, or in so many fewer of one kind that chance does not explain it, not counting contexts in which exact attention is right in less than 60 % of a kind; if it reads more than a tenth of the bytes on flash; or if answers differ that must be the same.

With --results, finished parts are appended to a file and not computed again, so that a run can be interrupted, and split into several processes with other formats or fewer documents. The last one prints all.

The model must use the chat format ChatML; without -m, it is the bundled model.`,
		Examples: []cli.Example{
			{Line: "llmlab recall -f book.txt", Purpose: "the bundled model, up to its 32K tokens"},
			{Line: "llmlab recall -f book.txt --jobs 8 --threads 2 --results r.jsonl", Purpose: "eight documents at once, resumable"},
			{Line: "llmlab recall -f book.txt --ctx 4096 --kv k8v8 --select 0.05", Purpose: "another selection, in a minute"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			b := &recallFlags{}
			b.o.Contexts, b.o.Select, b.o.Documents, b.o.Questions, b.o.Every = []int{4096, 16384, 32768}, "0.1", 4, 18, 6
			b.o.Formats = strings.Split(recallFormats, ",")
			f.Group("Model")
			f.Text(&b.model, "m model", "PATH", modelUsage)
			f.Count(&b.o.Threads, "threads", "N", "number of threads of each job; default: one for each fast core", 1, 1024)
			f.Count(&b.o.Jobs, "jobs", "N", "documents that are read at once; default: 1, which the times of tokens need", 1, 1024)
			f.Value("kv", "LIST", "formats of keys and values; default: "+recallFormats, func(text string) error {
				b.o.Formats = strings.Split(text, ",")
				if err := measure.CheckFormats(b.o.Formats); err != nil {
					return fmt.Errorf("must be formats such as %s, not %q", recallFormats, text)
				}
				return nil
			})
			f.Value("select", "HOW", "the page selection, as --kv-select of run; default: 0.1", func(text string) error {
				b.o.Select = text
				if err := measure.CheckSelection(text); err != nil {
					return fmt.Errorf("must be auto or a fraction such as 0.1, not %q", text)
				}
				return nil
			})
			f.Group("Questions")
			f.Text(&b.file, "f file", "FILE", "the text; - for standard input")
			f.Counts(&b.o.Contexts, "ctx", "tokens of context; default: 4096,16384,32768", 1, math.MaxInt32)
			f.Count(&b.o.Documents, "documents", "N", "different documents; default: 4", 1, 1000)
			f.Count(&b.o.Questions, "questions", "N", "questions about what each context adds, a third of them about notes; default: 18", 1, 1000)
			f.Count(&b.o.Every, "every", "N", "restored sessions, and exact attention on flash, answer one of N questions; default: 6", 1, 1000)
			f.Group("Output")
			f.Text(&b.results, "results", "FILE", "append finished parts to FILE, and do not compute those in it again")
			f.Toggle(&b.json, "json", "print one JSON object instead of tables")
			return b.run
		},
	}
}

// recallFormats are the formats that recall asks by default.
const recallFormats = "k8v8,k8f8,k4v8,f16,f32"

// recallFlags are the flags of recall.
type recallFlags struct {
	model string // path
	file  string
	// results is the file of finished parts; empty: none.
	results string
	json    bool
	o       measure.RecallOptions
}

// errRecall ends the command if the gate is not passed; the report has the reasons.
var errRecall = errors.New("the answers are not as good as they must be")

func (b *recallFlags) run(ctx context.Context, s *cli.Streams, args []string) (err error) {
	if err := cli.NoArguments(args); err != nil {
		return err
	}
	if b.o.Text, b.o.Path, b.o.FS, err = textInputs(s, b.file, b.model); err != nil {
		return err
	}
	if b.o.Dir, err = os.MkdirTemp("", "llmrun-recall-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.o.Dir)) }()
	if b.results != "" {
		f, err := b.openResults()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
	}
	report, err := cli.Measure(ctx, s, formatTokens, &b.o.Running, func(ctx context.Context) (*measure.RecallReport, error) {
		return measure.AskRecall(ctx, b.o)
	})
	if err != nil {
		return err
	}
	if err := cli.Present(s, b.json, report, report.WriteTable); err != nil {
		return err
	}
	if len(report.Failures) > 0 {
		return errRecall
	}
	return nil
}

// openResults reads the parts that earlier runs finished, and appends new ones to the file.
func (b *recallFlags) openResults() (f *os.File, err error) {
	if f, err = os.OpenFile(b.results, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	var cut int
	if b.o.Done, cut, err = measure.ReadRecallCells(f); err == nil && cut > 0 {
		var size int64
		if size, err = f.Seek(0, io.SeekEnd); err == nil {
			err = f.Truncate(size - int64(cut))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--results %s: %w", b.results, err), f.Close())
	}
	b.o.Save = func(c measure.RecallCell) error {
		line, err := json.Marshal(c)
		if err == nil {
			_, err = f.Write(append(line, '\n'))
		}
		return err
	}
	return f, nil
}

// formatTokens formats the amount of a meter that counts tokens.
func formatTokens(n int64) string { return fmt.Sprintf("%d tokens", n) }
