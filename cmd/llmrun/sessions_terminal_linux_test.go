package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestShowEscapesControlCharacters saves a conversation whose text holds terminal sequences, as a
// pasted document may, and shows it on a terminal and in a file: the terminal sees no ESC or
// other control character of the text, and the file holds the text unchanged.
func TestShowEscapesControlCharacters(t *testing.T) {
	const hostile = "a\x1b]0;owned\x07b\x1b[2Jc\x08\x7fd\u009b31me\x00f\tg\nh"
	dir := t.TempDir()
	engine, err := llmrun.Open(bundled.Name, llmrun.Options{FS: bundled.FS, Cache: llmrun.CacheOptions{KVDir: dir}})
	require.NoError(t, err)
	session, err := engine.OpenSession("x", llmrun.SessionOptions{})
	require.NoError(t, err)
	messages := []llmrun.Message{{Role: "user", Content: hostile}}
	for _, err := range session.ChatMessages(context.Background(), messages, llmrun.GenerateOptions{MaxTokens: 1}) {
		require.NoError(t, err)
	}
	require.NoError(t, session.Save(""))
	require.NoError(t, session.Close())
	require.NoError(t, engine.Close())

	keyboard, terminal := openTerminal(t)
	var shown screen
	go io.Copy(&shown, keyboard)
	show := func(out *os.File) {
		stdout := os.Stdout
		os.Stdout = out
		defer func() { os.Stdout = stdout }()
		require.NoError(t, (&sessionsFlags{}).show(cli.SystemStreams(), dir, []string{"x"}))
	}
	show(terminal)
	testutil.Eventually(t, "the answer is shown", func() bool { return shown.contains("assistant:") })
	shown.mu.Lock()
	text := strings.ReplaceAll(shown.text.String(), "\r\n", "\n") // the terminal's line breaks
	shown.mu.Unlock()
	require.Contains(t, text, "a␛]0;owned␇b␛[2Jc␈␡d\uFFFD31me␀f\tg\nh")
	for _, r := range text {
		require.False(t, r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0, "%q in %q", r, text)
	}

	file, err := os.Create(dir + "/out")
	require.NoError(t, err)
	defer file.Close()
	show(file)
	plain, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	require.Contains(t, string(plain), hostile, "a file holds the text as it is")
}
