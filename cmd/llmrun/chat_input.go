package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/llmrun/llmrun/internal/cli"
)

const (
	promptFirst = "> "
	promptMore  = "… " // the message goes on
	blockQuote  = `"""`
)

// An input reads lines. Its errors are io.EOF at the end and errInterrupted for
// Ctrl-C at the prompt; that line is lost and the next call reads another.
type input interface {
	// begin comes before the lines of a message, and the function it returns
	// after them.
	begin() (end func(), err error)
	// readLine shows the prompt and returns a line without its end. pasted says
	// that it came in the middle of pasted text, so more follows.
	readLine(prompt string) (line string, pasted bool, err error)
	// interactive reports whether somebody types.
	interactive() bool
}

// newInput returns line editing when somebody types, else plain lines.
func newInput(s *cli.Streams) input {
	if !s.InTerminal || !s.Out.Terminal && !s.ErrTerminal {
		return &pipeInput{lines: bufio.NewReader(s.In)}
	}
	screen := s.Err
	if s.Out.Terminal {
		screen = s.Out
	}
	return newTerminalInput(s.In, screen)
}

// readMessage reads a message: a line, a line that \ continues in the next, a
// pasted text, or a block between two """.
func readMessage(in input) (string, error) {
	end, err := in.begin()
	if err != nil {
		return "", err
	}
	defer end()
	var lines []string
	inBlock := false
	prompt := promptFirst
	for {
		line, pasted, err := in.readLine(prompt)
		if errors.Is(err, io.EOF) && len(lines) > 0 {
			return strings.Join(lines, "\n"), nil
		}
		if err != nil {
			return "", err
		}
		prompt = promptMore
		if !inBlock && len(lines) == 0 && strings.HasPrefix(line, blockQuote) {
			inBlock = true
			line = strings.TrimPrefix(line, blockQuote)
			if line == "" {
				continue
			}
		}
		switch {
		case inBlock && strings.HasSuffix(line, blockQuote):
			if line = strings.TrimSuffix(line, blockQuote); line != "" {
				lines = append(lines, line)
			}
			return strings.Join(lines, "\n"), nil
		case inBlock || pasted:
			lines = append(lines, line)
		case strings.HasSuffix(line, `\`):
			lines = append(lines, strings.TrimSuffix(line, `\`))
		default:
			lines = append(lines, line)
			return strings.TrimSuffix(strings.Join(lines, "\n"), "\n"), nil
		}
	}
}

// A pipeInput reads lines from a file or another program.
type pipeInput struct{ lines *bufio.Reader }

func (p *pipeInput) interactive() bool { return false }

func (p *pipeInput) begin() (func(), error) { return func() {}, nil }

func (p *pipeInput) readLine(string) (string, bool, error) {
	line, err := p.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil // the last line need not be ended
	}
	return trimLineEnd(line), false, err
}

// A terminalInput edits lines in a terminal and recalls earlier ones. The
// terminal is in raw mode only while a message is read: at all other times
// Ctrl-C is a signal, which stops an answer. Between the lines of a message it
// stays raw, as the rest of a pasted text may be on its way.
type terminalInput struct {
	file   *os.File
	keys   *keyReader
	screen io.Writer
	editor *term.Terminal
}

func newTerminalInput(file *os.File, screen io.Writer) *terminalInput {
	t := &terminalInput{file: file, keys: &keyReader{file: file}, screen: screen}
	t.editor = t.newEditor()
	return t
}

func (t *terminalInput) newEditor() *term.Terminal {
	return term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.keys, t.screen}, "")
}

func (t *terminalInput) interactive() bool { return true }

func (t *terminalInput) begin() (end func(), err error) {
	fd := int(t.file.Fd())
	cooked, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	unwatch := restoreOnSignal(fd, cooked)
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		_ = t.editor.SetSize(width, height) // or else lines wrap a little wrong
	}
	t.editor.SetBracketedPasteMode(true)
	return func() {
		t.editor.SetBracketedPasteMode(false)
		unwatch()
		_ = term.Restore(fd, cooked) // fails only when the terminal is gone
	}, nil
}

func (t *terminalInput) readLine(prompt string) (string, bool, error) {
	t.editor.SetPrompt(prompt)
	line, err := t.editor.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		return line, true, nil
	}
	if errors.Is(err, io.EOF) {
		fmt.Fprint(t.screen, "\r\n")
		if t.keys.interrupted {
			// The editor keeps the abandoned line and meets the same key again:
			// a new one takes its place, with the history.
			t.keys.interrupted = false
			history := t.editor.History
			t.editor = t.newEditor()
			t.editor.History = history
			return "", false, cli.ErrInterrupted
		}
	}
	return line, false, err
}

// A keyReader notices Ctrl-C, which the editor reports like the end of input, and
// what is no text, as terminals send that are not set to UTF-8: the editor would wait
// for another key at each such byte.
type keyReader struct {
	file        io.Reader
	interrupted bool
	buffer      [256]byte
	ready       []byte // text in the buffer
	begun       []byte // the beginning of a character whose rest has yet to come
}

func (k *keyReader) Read(p []byte) (int, error) {
	const ctrlC = 3
	for len(k.ready) == 0 {
		had := copy(k.buffer[:], k.begun)
		n, err := k.file.Read(k.buffer[had:])
		if bytes.IndexByte(k.buffer[had:had+n], ctrlC) >= 0 {
			k.interrupted = true
		}
		n, k.begun = legible(k.buffer[:had+n])
		k.ready = k.buffer[:n]
		if err != nil {
			n = copy(p, k.ready)
			k.ready = k.ready[n:]
			return n, err
		}
	}
	n := copy(p, k.ready)
	k.ready = k.ready[n:]
	return n, nil
}

// legible puts ? for bytes that are no UTF-8, and for the character that stands for
// such. It returns how many bytes there are then, and what may begin a character.
func legible(p []byte) (n int, begun []byte) {
	for rest := p; len(rest) > 0; {
		if !utf8.FullRune(rest) {
			return n, bytes.Clone(rest)
		}
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError {
			p[n] = '?'
			n++
		} else {
			n += copy(p[n:], rest[:size])
		}
		rest = rest[size:]
	}
	return n, nil
}

// restoreOnSignal gives the terminal back its normal mode when the program is
// ended from outside. The function it returns ends the watch.
func restoreOnSignal(fd int, cooked *term.State) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, cli.StopSignals()...)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			_ = term.Restore(fd, cooked)
			os.Exit(cli.StopBy(s).ExitCode())
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
