package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil"
)

// A screen records the output of a program to its terminal.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) contains(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.text.Bytes(), []byte(text))
}

func (s *screen) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Count(s.text.Bytes(), []byte(text))
}

// openTerminal returns the two ends of a pseudo-terminal: that of the user and that of the program.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { terminal.Close() })
	return keyboard, terminal
}

// mode returns the settings of a terminal.
func mode(t *testing.T, terminal *os.File) term.State {
	state, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		t.Error(err)
		return term.State{}
	}
	return *state
}

// TestChatFollowsTheWidth makes the terminal narrower, and then wider, while a line is edited: the line is drawn again without
// a key, and stays as it is.
func TestChatFollowsTheWidth(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	var shown screen
	go io.Copy(&shown, keyboard)
	resize := func(columns uint16) {
		require.NoError(t, unix.IoctlSetWinsize(int(keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	}
	resize(80)
	before := mode(t, terminal)
	signals := watchSignals(func() {})
	defer func() { require.NoError(t, signals.end(nil)) }()
	in := newTerminalInput(terminal, terminal, signals, &history{})
	typed := strings.Repeat("word ", 14)
	go func() {
		testutil.HoldsWithin(time.Minute, func() bool { return mode(t, terminal) != before })
		keyboard.WriteString(typed)
		testutil.HoldsWithin(time.Minute, func() bool { return shown.contains(typed) })
		for i, columns := range []uint16{40, 100} {
			resize(columns)
			unix.Kill(os.Getpid(), unix.SIGWINCH) // the kernel sends it to programs in the foreground of the terminal only
			testutil.HoldsWithin(time.Minute, func() bool { return shown.count(promptFirst+"word word") == i+2 })
		}
		keyboard.WriteString("end\r")
	}()
	message, err := readMessage(in)
	require.NoError(t, err)
	require.Equal(t, typed+"end", message)
	require.Equal(t, 3, shown.count(promptFirst+"word word"), "drawn by typing and by both changes")
}

// TestLineEditing checks editing, history, pasting and Ctrl keys of chat on a terminal.
func TestLineEditing(t *testing.T) {
	const (
		up    = "\x1b[A"
		ctrlC = "\x03"
		ctrlD = "\x04"
	)
	keyboard, terminal := openTerminal(t)
	var shown screen
	go io.Copy(&shown, keyboard)
	before := mode(t, terminal)
	signals := watchSignals(func() {})
	defer func() { require.NoError(t, signals.end(nil)) }()
	in := newTerminalInput(terminal, terminal, signals, &history{})

	steps := []struct {
		name, keys string
		want       string
		err        error
	}{
		{"a line", "hello\r", "hello", nil},
		{"the previous line, edited", up + " again\r", "hello again", nil},
		{"Ctrl-C discards the line", "half a line" + ctrlC, "", cli.ErrInterrupted},
		{"history after Ctrl-C", up + up + "\r", "hello", nil},
		{"continued", "one\\\rtwo\r", "one\ntwo", nil},
		{"pasted", cli.PasteBegin + "a\rb\rc" + cli.PasteEnd + " end\r", "a\nb\nc end", nil},
		{"a long text, pasted", cli.PasteBegin + strings.Repeat("word word word\r", 500) + cli.PasteEnd + "\r", strings.Repeat("word word word\n", 499) + "word word word", nil},
		{"pasted behind typed text", "see: " + cli.PasteBegin + "a\rb" + cli.PasteEnd + "\r", "see: a\nb", nil},
		{"pasted with the line ends of Windows", cli.PasteBegin + strings.Repeat("word word word\r\n", 50) + cli.PasteEnd + "\r", strings.Repeat("word word word\n", 49) + "word word word", nil},
		{"pasted behind three quotes", `"""` + cli.PasteBegin + "a\rb\"\"\"\rc" + cli.PasteEnd + "\r\"\"\"\r", "a\nb\"\"\"\nc", nil},
		{"typed again", "a\r", "a", nil},
		{"Latin-1", "caf\xe9 cr\xe8me\xff\xfe\r", "caf? cr?me??", nil},
		{"the replacement character", "a\ufffdb\r", "a?b", nil},
		{"Ctrl-D", ctrlD, "", io.EOF},
	}
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			go func() {
				// In the terminal's initial mode, the kernel would interpret the keys.
				testutil.HoldsWithin(time.Minute, func() bool { return mode(t, terminal) != before })
				keyboard.WriteString(step.keys)
			}()
			message, err := readMessage(in)
			require.ErrorIs(t, err, step.err)
			require.Equal(t, step.want, message)
			require.Equal(t, before, mode(t, terminal), "between messages Ctrl-C sends a signal again")
		})
	}
	testutil.Eventually(t, "both prompts are shown", func() bool { return shown.contains(promptFirst) && shown.contains(promptMore) })
}
