// Package testutil finds the material that tests compare against.
//
// Small reference files live in testdata directories and are always there. The
// larger set (fixture checkpoints, real vocabularies, the demo model's long
// references) lies in a directory named shared beside the checkout; tests that
// need it skip where it is absent.
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

// Shared returns the path of a file or directory of the shared reference
// material, or skips the test where the checkout stands alone.
func Shared(tb testing.TB, elem ...string) string {
	tb.Helper()
	path := filepath.Join(append([]string{Root(tb), "..", "shared"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("reference material %s is not beside this checkout", filepath.Join(elem...))
	}
	return path
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
