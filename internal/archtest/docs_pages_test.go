package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/llmrun/llmrun/internal/testutil"
)

// maxReadmeWords limits README.md to a screen and a half.
const maxReadmeWords = 900

func TestReadmeIsShort(t *testing.T) {
	if words := len(strings.Fields(readPage(t, "README.md"))); words > maxReadmeWords {
		t.Errorf("README.md has %d words, more than %d: move something to docs/guide", words, maxReadmeWords)
	}
}

// TestDecisionsAreListed fails when docs/decisions/README.md omits a note.
func TestDecisionsAreListed(t *testing.T) {
	index := readPage(t, "docs/decisions/README.md")
	for name := range documents(t) {
		if path.Dir(name) != "docs/decisions" || path.Base(name) == "README.md" {
			continue
		}
		if !strings.Contains(index, "("+path.Base(name)+")") {
			t.Errorf("docs/decisions/README.md does not list %s", path.Base(name))
		}
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	anchor  = regexp.MustCompile(`\]\(([^)#\s]*)#([^)]+)\)`)
)

// TestDocumentAnchorsResolve checks that the headings in links exist.
func TestDocumentAnchorsResolve(t *testing.T) {
	docs := documents(t)
	slugs := map[string]map[string]bool{}
	for name, text := range docs {
		slugs[name] = map[string]bool{}
		for _, match := range heading.FindAllStringSubmatch(text, -1) {
			slugs[name][slug(match[1])] = true
		}
	}
	for name, text := range docs {
		for _, match := range anchor.FindAllStringSubmatch(text, -1) {
			target := name
			if match[1] != "" {
				target = path.Join(path.Dir(name), match[1])
			}
			if known, ok := slugs[target]; ok && !known[match[2]] {
				t.Errorf("%s links to #%s of %s, which has no such heading", name, match[2], target)
			}
		}
	}
}

// slug returns the anchor of a heading: lower case, hyphens for spaces, no punctuation.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteRune('-')
		}
	}
	return b.String()
}

// pageName is a document that code, a script or the Makefile refers to.
var pageName = regexp.MustCompile(`\bdocs/[\w/.-]+\.(?:md|svg)\b`)

func TestCodeNamesExistingPages(t *testing.T) {
	root := testutil.Root(t)
	walkFiles(t, func(rel, full string) {
		switch path.Ext(rel) {
		case ".go", ".sh", ".mjs", ".s", ".cl", "":
		default:
			return
		}
		data, err := os.ReadFile(full)
		if err != nil {
			t.Error(err)
			return
		}
		for _, name := range pageName.FindAllString(string(data), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Errorf("%s refers to %s, which is not there", rel, name)
			}
		}
	})
}

// testCommand is a `go test` command in a document, up to the end of its code.
var testCommand = regexp.MustCompile("(?m)go test ([^`\n]*)")

// TestDocumentedTestsExist fails when -run or -bench in a document names tests that do not exist in
// the packages of the command.
func TestDocumentedTestsExist(t *testing.T) {
	names := map[string][]string{}
	for _, file := range goFiles(t) {
		if file.test {
			for name := range declarations(file.syntax) {
				names[file.pkg] = append(names[file.pkg], name)
			}
		}
	}
	for document, text := range documents(t) {
		for _, match := range testCommand.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(match[1])
			for i, word := range words {
				if (word != "-run" && word != "-bench") || i+1 == len(words) {
					continue
				}
				pattern, _, _ := strings.Cut(strings.Trim(words[i+1], "'"), "/")
				if !strings.ContainsFunc(pattern, unicode.IsLetter) {
					continue // no test, or every test
				}
				if !anyTest(names, packages(words), regexp.MustCompile(pattern)) {
					t.Errorf("%s: no test matches `go test %s`", document, match[1])
				}
			}
		}
	}
}

// packages returns the directories of a go test command, "." for the root package.
func packages(words []string) (dirs []string) {
	for _, word := range words {
		if word == "." || strings.HasPrefix(word, "./") {
			dirs = append(dirs, path.Clean(word))
		}
	}
	return dirs
}

// anyTest reports whether a test or benchmark of some packages matches.
func anyTest(names map[string][]string, dirs []string, pattern *regexp.Regexp) bool {
	for _, dir := range dirs {
		for _, name := range names[dir] {
			if pattern.MatchString(name) {
				return true
			}
		}
	}
	return false
}
