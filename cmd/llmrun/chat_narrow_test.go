package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
)

// TestChatNotesFitTheTerminal checks that what chat says beside answers is broken between words.
func TestChatNotesFitTheTerminal(t *testing.T) {
	var screen bytes.Buffer
	columns := 40
	c := &conversation{s: &cli.Streams{Err: &screen, ErrTerminal: true, ErrColumns: func() int { return columns }}}
	for _, columns = range []int{30, 40, 80} {
		screen.Reset()
		require.NoError(t, c.help(t.Context(), ""))
		c.note("%s, %s parameters, context of %d tokens. /help lists the commands, Ctrl-D leaves.", "llama model", "14.9M", 32768)
		for line := range strings.Lines(screen.String()) {
			require.LessOrEqual(t, cli.Cells(strings.TrimSuffix(line, "\n")), columns, line)
		}
	}
	require.Contains(t, screen.String(), "\n  /undo             remove the last message and its answer\n")
}
