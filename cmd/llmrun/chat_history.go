package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	// historyLines and historyBytes bound the lines that chat remembers.
	historyLines, historyBytes = 1000, 256 << 10
	// historyLine is the longest line that is remembered: a longer one is a pasted text.
	historyLine = 4 << 10
)

// A history holds the lines that were typed in chats, for the up key. It implements the History of the editor. A line is
// appended to its file at once, so that chats that run at the same time lose none.
type history struct {
	lines []string // the last one is the newest
	file  string   // "": only this chat remembers
	note  func(text string)
}

// historyFile returns where chat remembers what was typed.
func historyFile(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "llmrun", "history"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "llmrun", "history"), nil
}

// readHistory reads the lines of a file, "" for none. A history that cannot be read or written is no reason not to talk:
// note says so, once.
func readHistory(file string, note func(text string)) *history {
	h := &history{file: file, note: note}
	if file == "" {
		return h
	}
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return h
	case err != nil:
		h.fail(err)
		return h
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && utf8.ValidString(line) {
			h.lines = append(h.lines, line)
		}
	}
	if h.bound() || len(data) > 2*historyBytes {
		if err := replaceFile(file, []byte(strings.Join(h.lines, "\n")+"\n")); err != nil {
			h.fail(err)
		}
	}
	return h
}

// bound drops the oldest lines beyond the bounds, and reports whether they were far beyond.
func (h *history) bound() (far bool) {
	size, first := 0, len(h.lines)
	for first > 0 && len(h.lines)-first < historyLines && size+len(h.lines[first-1]) < historyBytes {
		first--
		size += len(h.lines[first]) + 1
	}
	far = first > historyLines
	h.lines = h.lines[first:]
	return far
}

// fail stops writing.
func (h *history) fail(err error) {
	h.file = ""
	h.note("lines of this chat are not remembered: " + err.Error())
}

// Add remembers a line.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(line) > historyLine || strings.ContainsAny(line, "\n\r") || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.bound()
	if h.file == "" {
		return
	}
	if err := appendLine(h.file, line); err != nil {
		h.fail(err)
	}
}

// appendLine adds a line to a file that only the user may read. It is one write: lines of several processes do not mix.
func appendLine(name, line string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	text.WriteString(line)
	text.WriteByte('\n')
	_, err = file.Write(text.Bytes())
	return errors.Join(err, file.Close())
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
