package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHistoryIsKept checks which lines of a chat the next one recalls, that only the user may read them, and that two chats
// at the same time lose none.
func TestHistoryIsKept(t *testing.T) {
	dir := t.TempDir()
	file, err := historyFile(func(name string) string { return map[string]string{"XDG_STATE_HOME": dir}[name] })
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "llmrun", "history"), file)
	note := func(text string) { require.Fail(t, text) }
	first, second := readHistory(file, note), readHistory(file, note)
	for _, line := range []string{"one", "one", " ", "two\nlines", strings.Repeat("x", historyLine+1), "two"} {
		first.Add(line)
	}
	second.Add("three")
	next := readHistory(file, note)
	require.Equal(t, []string{"one", "two", "three"}, next.lines)
	require.Equal(t, 3, next.Len())
	require.Equal(t, "three", next.At(0))
	for name, mode := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	unkept := readHistory("", note)
	unkept.Add("secret")
	require.Equal(t, "secret", unkept.At(0))
	require.Equal(t, 3, readHistory(file, note).Len())
}

// TestHistoryIsBounded writes more lines than are kept: the newest ones stay, and the file does not grow without end.
func TestHistoryIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	var all strings.Builder
	for i := range 3 * historyLines {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	require.NoError(t, os.WriteFile(file, []byte(all.String()), 0o600))
	h := readHistory(file, func(text string) { require.Fail(t, text) })
	require.Equal(t, historyLines, h.Len())
	require.Equal(t, fmt.Sprintf("line %d", 3*historyLines-1), h.At(0))
	h.Add("new")
	require.Equal(t, historyLines, h.Len())
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, historyLines+1, strings.Count(string(kept), "\n"))

	var notes []string
	broken := readHistory(filepath.Join(file, "no", "history"), func(text string) { notes = append(notes, text) })
	broken.Add("a")
	broken.Add("b")
	require.Len(t, notes, 1)
	require.Equal(t, "b", broken.At(0), "the chat goes on")
}
