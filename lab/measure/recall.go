package measure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/internal/bench"
	"github.com/llmrun/llmrun/internal/threadpool"
	"github.com/llmrun/llmrun/kv"
)

// RecallOptions configure AskRecall.
type RecallOptions struct {
	FS        fs.FS    // file system of Path; nil = the operating system's
	Path      string   // a model with the chat format of ChatML
	Dir       string   // directory for keys and values on flash
	Text      string   // what the documents consist of besides facts
	Documents int      // number of different documents
	Contexts  []int    // tokens
	Formats   []string // of keys and values
	Select    string   // the page selection to test
	// Questions is the number of questions about what each context adds to the shorter ones.
	Questions int
	// Every is the step between the questions that are asked of exact attention on flash, and of
	// restored sessions: of every so many, one.
	Every   int
	Threads int // of each job; 0 = the fast cores
	Jobs    int // documents that are read at once; times of tokens need 1
	// Done are cells of an earlier run, which are not asked again, and Save is called with each
	// new one, by one goroutine at a time. Both may be nil.
	Done    []RecallCell
	Save    func(RecallCell) error
	Running func(done, total int64) // may be nil
}

// Modes of keys and values. All of the exact ones must give the same answers, and so must all of
// those that select.
const (
	recallMemory   = "memory"             // exact attention, all in memory
	recallSpilled  = "spilled"            // exact attention, a sixteenth in memory
	recallSelected = "selected"           // page selection, a sixteenth in memory
	recallRestored = "restored"           // exact attention, restored from a saved session
	recallBoth     = "selected, restored" // page selection, restored from a saved session
)

// recallModes are the modes in the order of the table, and recallSameAs the mode of the same
// answers.
var (
	recallModes  = []string{recallMemory, recallSpilled, recallRestored, recallSelected, recallBoth}
	recallSameAs = map[string]string{recallSpilled: recallMemory, recallRestored: recallMemory, recallBoth: recallSelected}
)

// recallHot is the fraction of keys and values in memory, as its reciprocal.
const recallHot = 16

// AskRecall asks a model for facts in long documents, with each format of keys and values: in
// memory, on flash, restored from a saved session, and with page selection.
func AskRecall(ctx context.Context, o RecallOptions) (_ *RecallReport, err error) {
	if o.Threads == 0 {
		o.Threads = threadpool.DefaultThreads()
	}
	if err := errors.Join(CheckFormats(o.Formats), CheckSelection(o.Select)); err != nil {
		return nil, err
	}
	slices.Sort(o.Contexts)
	o.Contexts = slices.Compact(o.Contexts)
	b := &recallBench{o: &o}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.open(); err != nil {
		return nil, err
	}
	if err := b.askAll(ctx); err != nil {
		return nil, err
	}
	return newRecallReport(&o, filepath.Base(o.Path), b.cells), nil
}

// recallJob is the work on one document in one format.
type recallJob struct {
	format   string
	document int
}

// askAll asks about all documents in all formats, several at once. The first error ends it.
func (b *recallBench) askAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var jobs []recallJob
	for document := range b.documents {
		for _, format := range b.o.Formats {
			if j := (recallJob{format, document}); !b.isDone(j) {
				jobs = append(jobs, j)
			}
		}
	}
	pool := threadpool.New(max(1, b.o.Jobs))
	defer pool.Close()
	pool.Run(len(jobs), func(part, _ int) {
		if ctx.Err() == nil {
			if err := b.ask(ctx, jobs[part]); err != nil {
				cancel(err)
			}
		}
	})
	return context.Cause(ctx)
}

// CheckFormats returns an error if a format of keys and values is unknown.
func CheckFormats(names []string) error {
	for _, name := range names {
		if _, err := kv.ParseFormat(name); err != nil {
			return fmt.Errorf("%w: %w", bench.ErrBench, err)
		}
	}
	return nil
}

// CheckSelection returns an error unless a name is a page selection that can leave blocks out.
func CheckSelection(name string) error {
	selection, err := exec.ParseSelection(name)
	if err == nil && selection.Exact() {
		err = errors.New("it must select pages")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", bench.ErrBench, err)
	}
	return nil
}
