package profiles

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/solve"
)

// TestImplausibleChecksAreRejected checks that times of zero or of centuries are
// rejected.
func TestImplausibleChecksAreRejected(t *testing.T) {
	dir, keys := t.TempDir(), Keys{"first", "second"}
	split := solve.Split{Pieces: []solve.Piece{{Rows: 2}, {Device: 1, Row: 2, Rows: 2}}}
	shape := solve.Shape{Type: "Q8_0", Tokens: 1, Rows: 4, Cols: 32}
	for _, c := range []struct {
		split, alone time.Duration
		sound        bool
	}{
		{time.Millisecond, time.Millisecond, true},
		{-5, time.Millisecond, false},
		{0, time.Millisecond, false},
		{time.Millisecond, 1 << 62, false},
	} {
		f, report := Load("")
		require.Empty(t, report)
		f.AddCheck(keys, Check{Shape: shape, Pieces: split.Pieces, Split: c.split, Alone: []time.Duration{time.Second, c.alone}})
		require.NoError(t, f.Save(dir))
		f, report = Load(dir)
		require.Equal(t, c.sound, f.Check(keys, shape, &split) != nil)
		require.Equal(t, c.sound, report == "", report)
		if !c.sound {
			require.Contains(t, report, "invalid record")
		}
	}
}

// TestSaveFailureIsReported checks that a failed save is reported and not fatal.
func TestSaveFailureIsReported(t *testing.T) {
	f, _ := Load("")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	reported := ""
	f.SaveOrReport(file, func(text string) { reported = text })
	require.Contains(t, reported, "measurements of devices are not saved")
	f.SaveOrReport(file, nil)
}
