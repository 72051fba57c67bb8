package testutil

import (
	"os"
	"path/filepath"
	"testing"
)

// NextFileTime waits until a change of a file gets a later time than every change before the call. File systems count
// time in steps, so that two changes in a row may get the same time. The steps are those of the directory for
// temporary files.
func NextFileTime(tb testing.TB) {
	tb.Helper()
	probe := filepath.Join(tb.TempDir(), "probe")
	written := func() int64 {
		if err := os.WriteFile(probe, []byte("x"), 0o600); err != nil {
			tb.Fatal(err)
		}
		info, err := os.Stat(probe)
		if err != nil {
			tb.Fatal(err)
		}
		return info.ModTime().UnixNano()
	}
	before := written()
	Eventually(tb, "a change of a file gets a later time", func() bool { return written() > before })
}
