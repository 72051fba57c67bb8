// Package testutil finds the reference material that tests compare against.
//
// The material is in testdata at the repository's root, one directory for each
// set: fixtures, gguf, vocab, demo. Archives in a set are unpacked once into the
// user's cache directory. A directory named shared beside the checkout may hold a
// larger set under the same names; testdata takes precedence, so that a clone and a
// full checkout test the same files, and the larger set only adds to them.
package testutil

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Root returns the repository's root: the nearest directory above the test's
// working directory that holds go.mod.
func Root(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("go.mod not found above the working directory")
		}
		dir = parent
	}
}

// Shared returns the path of a set of reference material, or of a file or directory
// in it. It skips the test if neither testdata nor the larger set has it. The
// files are read-only.
func Shared(tb testing.TB, set string, elem ...string) string {
	tb.Helper()
	path, found := Find(tb, set, elem...)
	if !found {
		tb.Skipf("no reference material %s in testdata or beside the checkout", filepath.Join(append([]string{set}, elem...)...))
	}
	return path
}

// Find is Shared for a file that not every place has: found is false if none has it.
func Find(tb testing.TB, set string, elem ...string) (path string, found bool) {
	tb.Helper()
	for _, dir := range setDirs(tb, set) {
		path := filepath.Join(append([]string{dir}, elem...)...)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// Glob returns the paths in a set that match a pattern. A path that testdata and the
// larger set both have is listed once, in testdata. It skips the test if nothing matches.
func Glob(tb testing.TB, set, pattern string) (paths []string) {
	tb.Helper()
	listed := map[string]bool{}
	for _, dir := range setDirs(tb, set) {
		matches, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			tb.Fatal(err)
		}
		for _, path := range matches {
			if name := path[len(dir):]; !listed[name] {
				listed[name] = true
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		tb.Skipf("no reference material %s/%s in testdata or beside the checkout", set, pattern)
	}
	return paths
}

// setDirs returns the directories that may hold a set, in the order of precedence.
func setDirs(tb testing.TB, set string) []string {
	tb.Helper()
	root := Root(tb)
	return []string{unpacked(tb, root, set), filepath.Join(root, "..", "shared", set)}
}

// ReadJSON decodes a JSON file into v.
func ReadJSON(tb testing.TB, path string, v any) {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
}

// Must returns v, and panics for an error. It wraps a call that succeeds in every test.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
