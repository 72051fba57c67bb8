package index

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store/vfs"
)

const (
	// MaxNote is the largest file that is read as a note.
	MaxNote = 8 << 20
	// maxSettings is the largest file with patterns or settings.
	maxSettings = 1 << 20
	// maxDepth limits directories below each other, and maxFiles the files of a directory of notes.
	maxDepth = 64
	maxFiles = 1 << 20
)

// endings are those of the files that are notes.
var endings = []string{".md", ".markdown", ".txt"}

// A Tree is a directory of notes.
type Tree struct {
	fsys vfs.FS
}

// NewTree returns the tree of a directory. It follows no symbolic link out of it.
func NewTree(fsys vfs.FS) *Tree { return &Tree{fsys} }

// OpenTree returns the tree of a directory of the operating system.
func OpenTree(dir string) *Tree { return NewTree(vfs.OSRoot(dir)) }

// IsFile reports whether a path of the operating system is there and no directory.
func IsFile(name string) bool {
	info, err := vfs.OS().Stat(name)
	return err == nil && !info.IsDir
}

// Files returns the paths of the notes, sorted: files that end in .md, .markdown or .txt, but hidden ones, those that a
// .gitignore file or Obsidian's settings leave out, and those in directories that cannot be read, which are reported.
func (t *Tree) Files(report func(text string)) ([]string, error) {
	w := walker{tree: t, report: report}
	if data, err := vfs.ReadFile(t.fsys, obsidianFile, maxSettings); err == nil {
		w.filters = parseObsidian(data, report)
	} else if !IsMissing(err) {
		report(fmt.Sprintf("the files that Obsidian's settings exclude are notes too: %v", err))
	}
	if err := w.walk(".", nil, 0); err != nil {
		return nil, err
	}
	slices.Sort(w.files)
	return w.files, nil
}

// walker lists the files of a tree.
type walker struct {
	tree    *Tree
	filters []pathFilter
	files   []string
	report  func(string)
}

// walk adds the notes of a directory. Only an error of the outermost one ends the walk.
func (w *walker) walk(dir string, rules []ignoreRule, depth int) error {
	entries, err := w.tree.fsys.ReadDir(dir)
	if err != nil {
		if depth == 0 {
			return err
		}
		w.report(err.Error())
		return nil
	}
	if depth >= maxDepth {
		w.report(fmt.Sprintf("%s: directories below it are left out, there are more than %d in each other", dir, maxDepth))
	}
	if data, err := vfs.ReadFile(w.tree.fsys, vfs.Join(dir, ".gitignore"), maxSettings); err == nil {
		rules = append(slices.Clip(rules), parseIgnore(dir, string(data))...)
	}
	for _, entry := range entries {
		name := vfs.Join(dir, entry.Name)
		if strings.HasPrefix(entry.Name, ".") || ignores(rules, name, entry.IsDir) || w.filtered(name, entry.IsDir) {
			continue
		}
		if entry.IsDir {
			if depth < maxDepth {
				if err := w.walk(name, rules, depth+1); err != nil {
					return err
				}
			}
			continue
		}
		if !slices.Contains(endings, strings.ToLower(path.Ext(entry.Name))) {
			continue
		}
		if w.files = append(w.files, name); len(w.files) > maxFiles {
			return fmt.Errorf("there are more than %d notes", maxFiles)
		}
	}
	return nil
}

// filtered reports whether Obsidian's settings leave out a path.
func (w *walker) filtered(name string, isDir bool) bool {
	if isDir {
		name += "/"
	}
	return slices.ContainsFunc(w.filters, func(f pathFilter) bool { return f(name) })
}

// Read returns the text of a note.
func (t *Tree) Read(name string) (text []byte, err error) { return vfs.ReadFile(t.fsys, name, MaxNote) }

// Stamp returns a text that differs after a change of a file, "" if that cannot be known without reading it.
func (t *Tree) Stamp(name string) (string, error) {
	f, err := t.fsys.Open(name)
	if err != nil {
		return "", err
	}
	s, ok, err := vfs.StampOf(f)
	if err = errors.Join(err, f.Close()); err != nil || !ok {
		return "", err
	}
	return fmt.Sprint(s), nil
}

// IsMissing reports whether an error says that a file is not there, or not any more.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
