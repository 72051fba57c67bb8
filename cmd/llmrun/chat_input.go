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
	promptMore  = "… " // the message continues
	blockQuote  = `"""`
)

// An input reads lines. Its errors are io.EOF at the end and cli.ErrInterrupted for Ctrl-C at
// the prompt, which discards the line; the next call reads another.
type input interface {
	// begin prepares the terminal for the lines of a message; end undoes that.
	begin() (end func(), err error)
	// readLine shows the prompt and returns a line without its end. pasted reports a line in the
	// middle of pasted text, which more lines follow.
	readLine(prompt string) (line string, pasted bool, err error)
	// interactive reports whether the input is a terminal.
	interactive() bool
}

// newInput returns an input with line editing for a terminal, else plain lines.
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

// readMessage reads a message: a line, lines that \ joins, a pasted text, or a block between
// two """.
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

// A pipeInput reads lines from a file or a pipe.
type pipeInput struct{ lines *bufio.Reader }

func (p *pipeInput) interactive() bool { return false }

func (p *pipeInput) begin() (func(), error) { return func() {}, nil }

func (p *pipeInput) readLine(string) (string, bool, error) {
	line, err := p.lines.ReadString('\n')
	if errors.Is(err, io.EOF) && line != "" {
		err = nil // the last line may lack a line break
	}
	return trimLineEnd(line), false, err
}

// A terminalInput edits lines in a terminal, with a history. The terminal is in raw mode only
// while a message is read: at all other times Ctrl-C is a signal, which stops an answer. The
// terminal stays raw between the lines of a message because more pasted text may follow.
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
		_ = t.editor.SetSize(width, height) // otherwise long lines wrap at the wrong column
	}
	t.editor.SetBracketedPasteMode(true)
	return func() {
		t.editor.SetBracketedPasteMode(false)
		unwatch()
		_ = term.Restore(fd, cooked) // fails only if the terminal was closed
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
			// The editor keeps the abandoned line and would return the same key again: a new
			// editor with the same history replaces it.
			t.keys.interrupted = false
			history := t.editor.History
			t.editor = t.newEditor()
			t.editor.History = history
			return "", false, cli.ErrInterrupted
		}
	}
	return line, false, err
}

// A keyReader detects Ctrl-C, which the editor reports as the end of input, and replaces bytes
// that are not UTF-8, at which the editor would wait for another key.
type keyReader struct {
	file        io.Reader
	interrupted bool
	buffer      [256]byte
	ready       []byte // text in the buffer
	begun       []byte // the first bytes of an incomplete character
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

// legible replaces bytes that are not UTF-8, and the replacement character, by ? in place. It
// returns the number of bytes left, and the bytes of an incomplete character at the end.
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

// restoreOnSignal restores the terminal's mode when a signal ends the program. stop ends the
// watch.
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
