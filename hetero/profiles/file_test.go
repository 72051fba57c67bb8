package profiles

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/solve"
)

// TestChecksThatNobodyMeasured: a split is not believed to take no time, or for ever.
func TestChecksThatNobodyMeasured(t *testing.T) {
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
		f, notice := Load("")
		require.Empty(t, notice)
		f.AddCheck(keys, Check{Shape: shape, Pieces: split.Pieces, Split: c.split, Alone: []time.Duration{time.Second, c.alone}})
		require.NoError(t, f.Save(dir))
		f, notice = Load(dir)
		require.Equal(t, c.sound, f.Check(keys, shape, &split) != nil)
		require.Equal(t, c.sound, notice == "", notice)
		if !c.sound {
			require.Contains(t, notice, "invalid record")
		}
	}
}

// TestKeepingFails: what was measured is lost with a note.
func TestKeepingFails(t *testing.T) {
	f, _ := Load("")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	told := ""
	f.SaveOrReport(file, func(text string) { told = text })
	require.Contains(t, told, "measurements of devices are not saved")
	f.SaveOrReport(file, nil)
}
