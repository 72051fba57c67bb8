package testutil

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNextFileTimeIsLater checks that a change after the wait has a later time than one just before it.
func TestNextFileTimeIsLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	changed := func(text string) int64 {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime().UnixNano()
	}
	for range 3 {
		before := changed("a")
		NextFileTime(t)
		if after := changed("b"); after <= before {
			t.Errorf("a change at %d, the next one at %d", before, after)
		}
	}
}
