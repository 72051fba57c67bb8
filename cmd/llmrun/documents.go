package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// summarySuffix is how files with summaries end, and fieldsSuffix those with fields.
const summarySuffix, fieldsSuffix = ".summary.md", ".fields.json"

// documentEndings are the endings of files that are read where a directory is named.
var documentEndings = []string{".txt", ".text", ".md", ".markdown", ".html", ".htm", ".xhtml", ".epub", ".org", ".rst"}

// A docInput is a document of the command line.
type docInput struct {
	name  string   // as it is shown
	key   string   // by which its job is found
	place string   // relative path of its output, without the suffix
	file  *os.File // standard input, spooled; nil: name is opened
}

// findDocuments returns the documents that arguments name.
func findDocuments(s *cli.Streams, args []string) (inputs []*docInput, err error) {
	if len(args) == 0 {
		if s.InTerminal {
			return nil, cli.Usagef("name a document: llmrun summarize FILE, or - for standard input")
		}
		args = []string{"-"}
	}
	for _, arg := range args {
		if arg == "-" {
			in, err := spool(s)
			if err != nil {
				return nil, err
			}
			inputs = append(inputs, in)
			continue
		}
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			in, err := newDocInput(arg, filepath.Base(arg))
			if err != nil {
				return nil, err
			}
			inputs = append(inputs, in)
			continue
		}
		found, err := walkDocuments(s, arg)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, found...)
	}
	return inputs, nil
}

func newDocInput(path, place string) (*docInput, error) {
	key, err := filepath.Abs(path)
	return &docInput{name: path, key: key, place: place}, err
}

// walkDocuments returns the documents of a directory, sorted by name, and tells which files it leaves out.
func walkDocuments(s *cli.Streams, dir string) (inputs []*docInput, err error) {
	var left []string
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(entry.Name(), ".") && path != dir
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return filepath.SkipDir
		case entry.IsDir() || hidden || strings.HasSuffix(path, summarySuffix) || strings.HasSuffix(path, fieldsSuffix):
			return nil
		case !entry.Type().IsRegular() || !slices.Contains(documentEndings, strings.ToLower(filepath.Ext(path))):
			left = append(left, entry.Name())
			return nil
		}
		place, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		in, err := newDocInput(path, place)
		inputs = append(inputs, in)
		return err
	})
	if err == nil && len(inputs) == 0 {
		err = cli.Usagef("%s has no documents: files that end in %s", dir, cli.Either(documentEndings))
	}
	if len(left) > 0 {
		s.Note(fmt.Sprintf("%s of %s left out, such as %s: only text, Markdown, HTML and EPUB are read; name a file to see what makes text of it", countOf(len(left), "file"), cli.VisibleLine(dir), cli.VisibleLine(left[0])))
	}
	return inputs, err
}

// spool copies standard input to a temporary file, so that it can be read in pieces and twice.
func spool(s *cli.Streams) (*docInput, error) {
	f, err := os.CreateTemp("", "llmrun-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // where the system permits, nothing stays behind if the process is killed
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, sum), s.In); err != nil {
		return nil, errors.Join(fmt.Errorf("reading standard input: %w", err), f.Close())
	}
	return &docInput{name: "-", key: fmt.Sprintf("standard input %.6x", sum.Sum(nil)), place: "stdin", file: f}, nil
}

// open opens the document. Its text is in the file itself, or in a temporary one.
func (in *docInput) open() (*llmrun.Document, error) {
	if in.file == nil {
		doc, err := llmrun.OpenDocument(in.name, os.TempDir())
		if err == nil {
			doc.Name = in.key
		}
		return doc, err
	}
	info, err := in.file.Stat()
	if err != nil {
		return nil, err
	}
	doc, err := llmrun.ReadDocument(in.name, in.file, info.Size(), os.TempDir())
	if err == nil {
		doc.Name = in.key
	}
	return doc, err
}

// output returns the file for the result.
func (in *docInput) output(dir, suffix string) string { return filepath.Join(dir, in.place+suffix) }

// checkOutputs refuses documents whose summaries would have the same file, and a directory that cannot be made.
func checkOutputs(dir, suffix string, inputs []*docInput) error {
	if dir == "" {
		return nil
	}
	seen := map[string]string{}
	for _, in := range inputs {
		out := in.output(dir, suffix)
		if other, twice := seen[out]; twice {
			return cli.Usagef("-o: the summaries of %s and %s would both be %s", other, in.name, out)
		}
		seen[out] = in.name
	}
	return os.MkdirAll(dir, 0o755)
}

// write writes a summary to its file, which is the old one or the new one at any moment.
func (in *docInput) write(dir, suffix, text string) (path string, err error) {
	path = in.output(dir, suffix)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, replaceFile(path, []byte(text+"\n"))
}
