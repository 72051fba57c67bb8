package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/document"
)

// ErrNotText reports that a document is no text. The message says what it is, and which command makes text of it.
var ErrNotText = document.ErrNotText

// ErrJobCancelled is the error of [Engine.Summarize] for a job that [SessionDir.CancelJob] has cancelled.
var ErrJobCancelled = errors.New("the job was cancelled")

// The methods of [Engine.Summarize].
const (
	// SummarizeTree summarizes each part, then groups of summaries, until the rest is short enough; also "".
	SummarizeTree = "tree"
	// SummarizeRefine reads part after part, and corrects and extends one summary.
	SummarizeRefine = "refine"
)

// Document is a text to read. Its methods are not safe for concurrent use.
type Document struct {
	// Name says what is read, in prompts and for jobs: a document of the same name and with the same options
	// continues the same job.
	Name string
	// Text is UTF-8, of Size bytes. Package strings and os have readers for it.
	Text io.ReaderAt
	Size int64

	close func() error
}

// OpenDocument opens a file: text, Markdown, HTML or EPUB. What is not UTF-8 yet is converted into a temporary file
// in dir, which nothing else can open. A file of another kind gives an error that wraps [ErrNotText]. Close the result.
func OpenDocument(name, dir string) (*Document, error) {
	f, err := vfs.OS().Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil {
		var d *Document
		if d, err = ReadDocument(name, f, size, dir); err == nil {
			converted := d.close
			d.close = func() error { return errors.Join(converted(), f.Close()) }
			return d, nil
		}
	}
	return nil, errors.Join(err, f.Close())
}

// ReadDocument is OpenDocument for a file that is open, or in memory. The caller closes data behind the document.
func ReadDocument(name string, data io.ReaderAt, size int64, dir string) (*Document, error) {
	source := document.Source{Name: name, Data: data, Size: size}
	kind, err := document.KindOf(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d := &Document{Name: name, Text: data, Size: size, close: func() error { return nil }}
	if kind == document.Plain {
		return d, nil
	}
	text, err := vfs.Scratch(vfs.OS(), dir)
	if err != nil {
		return nil, fmt.Errorf("%s: no room for its text: %w", name, err)
	}
	w := &fileWriter{f: text}
	if err := document.Extract(w, source); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), text.Close())
	}
	d.Text, d.Size, d.close = text, w.off, text.Close
	return d, nil
}

// PlainText returns a text that was read from a file as UTF-8: without a byte order mark, and converted from UTF-16.
// For what is no text, such as a PDF file, it returns an error that wraps [ErrNotText], and names the command that makes
// text of it. HTML stays as it is.
func PlainText(name, data string) (string, error) {
	text, err := document.DecodeString(name, data)
	var refused *document.Refused
	if errors.As(err, &refused) {
		prompt := *refused // the hint is for a prompt
		prompt.Hint = strings.ReplaceAll(prompt.Hint, "llmrun summarize -", "llmrun run -f -")
		err = &prompt
	}
	return text, err
}

// Close releases what OpenDocument has opened.
func (d *Document) Close() error {
	if d.close == nil {
		return nil
	}
	closing := d.close
	d.close = nil
	return closing()
}

// TextDocument returns a document with a text in memory.
func TextDocument(name, text string) *Document {
	return &Document{Name: name, Text: strings.NewReader(text), Size: int64(len(text))}
}

// fileWriter writes a file from its beginning.
type fileWriter struct {
	f   vfs.File
	off int64
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.f.WriteAt(p, w.off)
	w.off += int64(n)
	return n, err
}

// SummarizeOptions configure a summary. The zero value summarizes greedily in the document's language.
type SummarizeOptions struct {
	Instructions string // what the summary is for, and what must not be missing
	Language     string // such as "French"; "": that of the document
	// Words is about the length of the summary. 0 follows the document: a twentieth of it, but at least 200 words and at most 1000.
	Words  int
	Method string // SummarizeTree or SummarizeRefine
	// Cite ends each statement with the numbers of the parts from which it comes, such as [3], which are indexes of
	// Summary.Parts from 1 on. The model is asked to keep them where it merges summaries; what it leaves without a
	// number gets that of the statement with most words in common.
	Cite bool
	// Schema is a JSON Schema of fields that are extracted in place of a summary. Each part gives an object (or whatever the schema describes)
	// that is held to it, and the program merges them, without the model: objects field by field, lists joined in the order of the
	// document without repeats, of other values the one that most parts give, the first of equally frequent ones; null and what
	// is empty only if no part gives more. The result is valid in the schema. Titles and descriptions in the schema tell the model what
	// is meant. Words, Cite and SummarizeRefine have no meaning with it.
	Schema string
	// PartTokens is the most tokens of a part. 0 lets the engine decide: up to 12288, as the context permits.
	PartTokens int
	Sampling   Sampling // a seed makes the result reproducible; without one it is 1
	// Again computes everything, also what an earlier run has saved.
	Again bool
	// Progress, if set, is called when a part begins and while it is read and answered.
	Progress func(SummaryProgress)
	// Answered, if set, is called behind each answer of the model with what it took.
	Answered func(Stats)
	// Wait, if set, is called before each part, and behind each prefill chunk and each token of an answer. It may block,
	// to pause the job. Its error ends the job, which goes on where it was when Summarize is called again.
	Wait func(context.Context) error
}

// SummaryProgress tells how far a summary is.
type SummaryProgress struct {
	Level       int // 0: parts of the document; 1 and more: merging summaries
	Part, Parts int // the part under way, from 1 on, and how many the level has
	// Done and Total measure the work of all levels that is not saved already. Total is estimated. An answered token
	// counts as much as eight that are read.
	Done, Total int64
}

// Summary is the result of [Engine.Summarize].
type Summary struct {
	Text  string        `json:"summary"` // with Schema: JSON that is valid in it
	Parts []SummaryPart `json:"parts"`
	// Computed and Reused count the parts that were computed, and those that an earlier run had saved.
	Computed int `json:"computed_parts"`
	Reused   int `json:"reused_parts"`
	// ComputedMerges and ReusedMerges count merged summaries in the same way.
	ComputedMerges int `json:"computed_merges"`
	ReusedMerges   int `json:"reused_merges"`
	// Repeats counts the answers in which the model repeated itself without end. They were stopped there.
	Repeats int    `json:"repeats"`
	Job     string `json:"job,omitempty"` // its ID; "" if nothing is saved
}

// SummaryPart is a part of a document with its summary.
type SummaryPart struct {
	Start   int64  `json:"start"` // bytes of the document's text
	End     int64  `json:"end"`
	Heading string `json:"heading,omitempty"` // the first one in the part
	Summary string `json:"summary"`           // with SummarizeRefine: of the document up to the part's end
}

// validate checks the options.
func (o *SummarizeOptions) validate() error {
	switch {
	case o.Method != "" && o.Method != SummarizeTree && o.Method != SummarizeRefine:
		return fmt.Errorf("%w: Method is %q; it must be %s or %s", ErrOptions, o.Method, SummarizeTree, SummarizeRefine)
	case o.Schema != "" && (o.Words != 0 || o.Cite || o.Method == SummarizeRefine):
		return fmt.Errorf("%w: Words, Cite and the method %s have no meaning with Schema", ErrOptions, SummarizeRefine)
	case o.Words < 0 || o.Words > maxSummaryWords:
		return fmt.Errorf("%w: Words is %d; it must be from 1 to %d, or 0", ErrOptions, o.Words, maxSummaryWords)
	case o.PartTokens < 0 || o.PartTokens > 0 && o.PartTokens < minPartTokens:
		return fmt.Errorf("%w: PartTokens is %d; it must be at least %d, or 0", ErrOptions, o.PartTokens, minPartTokens)
	case o.Cite && o.Method == SummarizeRefine:
		return fmt.Errorf("%w: Cite needs the method %s: %s has one summary of all parts", ErrOptions, SummarizeTree, SummarizeRefine)
	}
	return (&GenerateOptions{Schema: o.Schema}).CheckConstraint()
}

// Summarize summarizes a document of any length. It divides the text where its author has: before headings, between
// paragraphs, behind sentences. It summarizes each part and merges the summaries, all with prompts of which the engine
// prefills the common beginning once. The document is read in pieces, so memory does not grow with it.
//
// With a cache directory (see [CacheOptions]), each finished part is saved there, durable before the next one begins. A
// call with the same document name and options continues where an earlier one ended, for whatever reason, and computes
// only the parts of a document that have changed. [SessionDir.Jobs] lists such jobs.
func (e *Engine) Summarize(ctx context.Context, doc *Document, o SummarizeOptions) (_ *Summary, err error) {
	defer ended.Say(ctx, &err)
	s, err := e.NewSummarizer(o)
	if err != nil {
		return nil, err
	}
	summary, err := s.run(ctx, doc)
	return summary, errors.Join(err, s.Close())
}
