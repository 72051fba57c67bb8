package profiles

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/solve"
)

// loaded loads the file in a directory.
func loaded(t *testing.T, dir string) *File {
	f, report := Load(dir)
	require.Empty(t, report)
	return f
}

func failOnReport(t *testing.T) func(string) {
	return func(text string) { t.Error("unexpected:", text) }
}

// TestTrialsAreSaved checks that a directory holds one trial for the same passes on
// the same devices, and no implausible one.
func TestTrialsAreSaved(t *testing.T) {
	dir, keys := t.TempDir(), Keys{"cpu", "gpu"}
	passes := Passes{Matmuls: "1 attn_q", Chunk: 32}
	for _, took := range []time.Duration{time.Second, time.Minute, -1} {
		f := loaded(t, dir)
		f.AddCopy(keys, CopyTime{Tokens: 1, Width: 8, Took: took})
		require.NoError(t, f.Save(dir))
		SaveTrial(dir, keys, Trial{Passes: passes, Planned: PassTimes{Token: took}}, failOnReport(t))
		f = loaded(t, dir)
		result := f.Trial(keys, passes)
		copied, known := f.Copy(keys, 1, 8)
		require.Equal(t, took >= 0, known)
		if took < 0 {
			require.Nil(t, result)
			continue
		}
		require.Equal(t, took, result.Planned.Token)
		require.Equal(t, took, copied)
		require.Nil(t, f.Trial(Keys{"cpu", "npu"}, passes))
		require.Nil(t, f.Trial(keys, Passes{Matmuls: "1 attn_q", Chunk: 64}))
		require.Nil(t, f.Trial(keys, Passes{Matmuls: "2 attn_q", Chunk: 32}))
		require.Nil(t, f.Trial(keys, Passes{Matmuls: "1 attn_q", Chunk: 32, Exact: true}))
		_, known = f.Copy(keys, 2, 8)
		require.False(t, known)
		require.Len(t, f.Pairs["cpu + gpu"].Trials, 1)
		require.Len(t, f.Pairs["cpu + gpu"].Copies, 1)
	}
}

// TestStaleTrialsAreIgnored checks that trials of another program version, old ones
// and ones with a future time are ignored and replaced.
func TestStaleTrialsAreIgnored(t *testing.T) {
	keys, passes := Keys{"cpu", "gpu"}, Passes{Matmuls: "1 attn_q", Chunk: 32}
	for name, c := range map[string]struct {
		change func(*Trial)
		counts bool
	}{
		"yesterday":       {func(old *Trial) { old.At = old.At.Add(-24 * time.Hour) }, true},
		"two months ago":  {func(old *Trial) { old.At = old.At.Add(-60 * 24 * time.Hour) }, false},
		"tomorrow":        {func(old *Trial) { old.At = old.At.Add(24 * time.Hour) }, false},
		"unknown":         {func(old *Trial) { old.At = time.Time{} }, false},
		"another program": {func(old *Trial) { old.Program += " of last year" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			SaveTrial(dir, keys, Trial{Passes: passes}, failOnReport(t))
			f := loaded(t, dir)
			c.change(&f.Pairs["cpu + gpu"].Trials[0])
			require.NoError(t, f.Save(dir))
			require.Equal(t, c.counts, loaded(t, dir).Trial(keys, passes) != nil)
			SaveTrial(dir, keys, Trial{Passes: Passes{Matmuls: "another model"}}, failOnReport(t))
			require.Len(t, loaded(t, dir).Pairs["cpu + gpu"].Trials, map[bool]int{true: 2, false: 1}[c.counts])
		})
	}
}

// TestInvalidate checks that measurements of other devices and checks of other
// matmuls remain.
func TestInvalidate(t *testing.T) {
	dir, passes := t.TempDir(), Passes{Matmuls: "1 attn_q", Chunk: 32}
	again, other := solve.Shape{Type: "Q8_0", Tokens: 1, Rows: 4, Cols: 32}, solve.Shape{Type: "Q8_0", Tokens: 2, Rows: 4, Cols: 32}
	split := solve.Split{Pieces: []solve.Piece{{Rows: 2}, {Device: 1, Row: 2, Rows: 2}}}
	pairs := map[string]Keys{"both": {"cpu", "gpu"}, "first": {"cpu", "npu"}, "second": {"cpu, 1 thread", "gpu"}, "none": {"cpu, 1 thread", "npu"}}
	f := loaded(t, dir)
	for _, keys := range pairs {
		for _, shape := range []solve.Shape{again, other} {
			f.AddCheck(keys, Check{Shape: shape, Pieces: split.Pieces, Split: 1, Alone: []time.Duration{1, 1}})
		}
		f.AddCopy(keys, CopyTime{Tokens: 1, Width: 8, Took: 1})
	}
	require.NoError(t, f.Save(dir))
	for _, keys := range pairs {
		SaveTrial(dir, keys, Trial{Passes: passes}, failOnReport(t))
	}
	f = loaded(t, dir)
	f.Invalidate(pairs["both"], []solve.Shape{again})
	for name, keys := range pairs {
		_, copied := f.Copy(keys, 1, 8)
		require.Equal(t, name == "none", copied, name)
		require.Equal(t, name == "none", f.Trial(keys, passes) != nil, name)
		require.Equal(t, name != "both", f.Check(keys, again, &split) != nil, name)
		require.NotNil(t, f.Check(keys, other, &split), name)
	}
}
