package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// overnightCommand is a command of docs/guide/overnight.md: an indented line, behind a pipe too, or one in a table.
var overnightCommand = regexp.MustCompile("(?m)^(?:    (?:.* \\| )?|\\| `)(llmrun (?:summarize|jobs)[^`\n]*)")

// TestOvernightCommands runs the commands of the guide in their order, with the bundled model in place of model.gguf.
func TestOvernightCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command, and runs the bundled model")
	}
	binary, dir := builtCommand(t), t.TempDir()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide", "overnight.md"))
	require.NoError(t, err)
	const text = "The fox is called Ruby. She lives near the lake.\n"
	require.NoError(t, os.Mkdir(filepath.Join(dir, "books"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "books", "fox.md"), []byte(text), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "minutes"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "minutes", "fox.md"), []byte(text), 0o600))
	const schema = `{"type":"object","properties":{"name":{"type":"string","maxLength":20}},"required":["name"],"additionalProperties":false}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fields.json"), []byte(schema), 0o600))
	lines := overnightCommand.FindAllStringSubmatch(string(page), -1)
	require.Len(t, lines, 6)
	id := ""
	for _, line := range lines {
		command := strings.ReplaceAll(line[1], " -m model.gguf", "")
		if id != "" {
			command = strings.ReplaceAll(command, " ID", " "+id)
		}
		run := exec.Command(binary, strings.Fields(command)[1:]...)
		run.Dir, run.Stdin, run.Env = dir, strings.NewReader(text), append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+dir)
		var errs bytes.Buffer
		run.Stderr = &errs
		out, err := run.Output()
		require.NoError(t, err, "%s\n%s", command, &errs)
		require.NotEmpty(t, out, command)
		if command == "llmrun jobs" {
			id, _, _ = strings.Cut(string(out), " ")
		}
	}
	require.FileExists(t, filepath.Join(dir, "summaries", "fox.md.summary.md"))
	require.FileExists(t, filepath.Join(dir, "fields", "fox.md.fields.json"))
}
