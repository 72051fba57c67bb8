package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/llmrun/llmrun"
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
	// refused returns the error for a message that is too long, once its lines have been read. The
	// lines then have only the end of their text.
	refused() error
}

// newInput returns an input with line editing for a terminal, where past are the lines of earlier chats, else plain lines,
// whose messages ram limits, and for which room returns memory.
func newInput(s *cli.Streams, signals *signalWatch, ram int64, room func() *llmrun.Room, past func() *history) input {
	if !s.InTerminal || !s.Out.Terminal && !s.ErrTerminal {
		return &pipeInput{lines: bufio.NewReader(s.In), signals: signals, ram: ram, room: room}
	}
	screen := s.Err
	if s.Out.Terminal {
		screen = s.Out
	}
	return newTerminalInput(s.In, screen, signals, past())
}

// readMessage reads a message: a line, lines that \ joins, a pasted text, or a block between
// two """. It reads a message that is too long to its end.
func readMessage(in input) (string, error) {
	end, err := in.begin()
	if err != nil {
		return "", err
	}
	defer end()
	text, err := readLines(in)
	if long := in.refused(); long != nil {
		return "", long
	}
	return text, err
}

// readLines reads the lines of a message.
func readLines(in input) (string, error) {
	var text messageText
	inBlock := false
	prompt := promptFirst
	for {
		line, pasted, err := in.readLine(prompt)
		if errors.Is(err, io.EOF) && text.begun {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		prompt, text.dropped = promptMore, in.refused() != nil
		if !inBlock && !text.begun && !pasted && strings.HasPrefix(line, blockQuote) {
			inBlock = true
			line = strings.TrimPrefix(line, blockQuote)
			if line == "" {
				continue
			}
		}
		switch {
		case inBlock && !pasted && strings.HasSuffix(line, blockQuote):
			if line = strings.TrimSuffix(line, blockQuote); line != "" {
				text.add(line)
			}
			return text.String(), nil
		case inBlock || pasted:
			text.add(line)
		case strings.HasSuffix(line, `\`):
			text.add(strings.TrimSuffix(line, `\`))
		case !text.begun:
			return line, nil // without a copy
		default:
			text.add(line)
			return strings.TrimSuffix(text.String(), "\n"), nil
		}
	}
}

// messageText joins lines. A list of them would take many times the size of short lines.
type messageText struct {
	strings.Builder
	begun   bool // it has a line, which may be empty
	dropped bool // no more lines are held
}

func (m *messageText) add(line string) {
	if m.dropped {
		m.begun = true
		return
	}
	m.Grow(len(line) + 1) // by itself a large builder grows in small steps
	if m.begun {
		m.WriteByte('\n')
	}
	m.WriteString(line)
	m.begun = true
}

// A pipeInput reads lines from a file or a pipe. A message has the limit of a prompt, so that one
// without end does not use up the memory.
type pipeInput struct {
	lines   *bufio.Reader
	signals *signalWatch // nil: a signal ends the program at once
	ram     int64        // --ram, 0 for none
	read    int64        // bytes of the message so far

	room    func() *llmrun.Room // nil: the memory of a message is not counted
	held    *llmrun.Room        // of the message; nil while it is short
	counted int64               // bytes of the message for which held has room
	failed  error               // the budget has no room
}

const (
	// freeMessage is the length of a message whose memory is part of the plan.
	freeMessage = 256 << 10
	// messageCost bounds the memory that is allocated for each byte of a message while it is read: of buffers that double, all
	// copies together have four, and the collector need not run.
	messageCost = 4
)

// count takes memory for the message until its length has doubled. Its conversion takes more.
func (p *pipeInput) count() {
	if p.room == nil || p.read <= max(freeMessage, p.counted) {
		return
	}
	if p.held == nil {
		p.held = p.room()
	}
	p.counted = 2 * p.read
	p.failed = p.held.Resize(messageCost * p.counted)
}

func (p *pipeInput) interactive() bool { return false }

func (p *pipeInput) begin() (func(), error) {
	p.read, p.counted, p.failed = 0, 0, nil
	end := func() {}
	if p.signals != nil {
		end = p.signals.begin(p.signals.quit)
	}
	return func() {
		end()
		if p.held != nil {
			p.held.Close()
			p.held = nil
		}
	}, nil
}

func (p *pipeInput) readLine(string) (string, bool, error) {
	var line strings.Builder
	var refused lineEnds // of a line that is too long, what readLines looks at
	for {
		part, err := p.lines.ReadSlice('\n')
		if p.read += int64(len(part)); p.read > cli.MaxInput+int64(len("\r\n")) {
			return "", false, p.refused()
		}
		if !p.tooLong() {
			p.count()
		}
		if !p.tooLong() {
			line.Grow(len(part)) // by itself a large builder grows in small steps
			line.Write(part)
		} else {
			refused = addToEnds(addToEnds(refused, line.String()), part)
			line.Reset()
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line.Write(refused)
		if errors.Is(err, io.EOF) && line.Len() > 0 {
			err = nil // the last line may lack a line break
		}
		return trimLineEnd(line.String()), false, err
	}
}

// limit returns the most bytes of a message.
func (p *pipeInput) limit() int64 {
	if p.ram > 0 {
		return min(p.ram/promptPart, cli.MaxInput)
	}
	return cli.MaxInput
}

// lineEnds are the ends of a long line without its middle: only they tell whether more lines follow.
type lineEnds []byte

// addToEnds appends a part of a line to its ends. It makes no garbage: a line without end must not be faster than the
// collector.
func addToEnds[T string | []byte](ends lineEnds, part T) lineEnds {
	const begin, end = len(blockQuote), len(blockQuote + "\r\n")
	if n := min(len(part), max(0, begin-len(ends))); n > 0 {
		ends, part = append(ends, part[:n]...), part[n:]
	}
	part = part[max(0, len(part)-end):]
	if over := len(ends) + len(part) - begin - end; over > 0 {
		ends = append(ends[:begin], ends[begin+over:]...)
	}
	return append(ends, part...)
}

// tooLong reports whether the message is longer, or than its memory.
func (p *pipeInput) tooLong() bool {
	return p.failed != nil || p.read > p.limit()+int64(len("\r\n"))
}

// refused is the error for a longer message.
func (p *pipeInput) refused() error {
	switch limit := p.limit(); {
	case !p.tooLong():
		return nil
	case p.failed != nil && p.read <= limit:
		return p.failed
	case limit < cli.MaxInput:
		return &longPrompt{flag: "standard input", limit: limit, parts: promptPart, bytes: p.read}
	}
	return cli.TooMuch("standard input")
}

// A terminalInput edits lines in a terminal, with a history. The terminal is in raw mode only
// while a message is read: at all other times Ctrl-C is a signal, which stops an answer. The
// terminal stays raw between the lines of a message because more pasted text may follow.
type terminalInput struct {
	file    *os.File
	keys    *keyReader
	editor  *cli.LineEditor
	signals *signalWatch
}

func newTerminalInput(file *os.File, screen io.Writer, signals *signalWatch, past *history) *terminalInput {
	t := &terminalInput{file: file, keys: &keyReader{file: file}, signals: signals}
	t.editor = cli.NewLineEditor(t.keys, screen, past)
	return t
}

func (t *terminalInput) interactive() bool { return true }

func (t *terminalInput) refused() error { return nil }

func (t *terminalInput) begin() (end func(), err error) {
	fd := int(t.file.Fd())
	cooked, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	unwatch := t.signals.begin(func(s os.Signal) {
		_ = term.Restore(fd, cooked)
		t.signals.quit(s)
	})
	resize := func() {
		if width, height, err := term.GetSize(fd); err == nil && width > 0 {
			_ = t.editor.SetSize(width, height) // otherwise long lines wrap at the wrong column
		}
	}
	resize()
	unwatchSize := onResize(resize)
	_ = t.editor.MarkPastes(true)
	return func() {
		unwatchSize()
		_ = t.editor.MarkPastes(false)
		unwatch()
		_ = term.Restore(fd, cooked) // fails only if the terminal was closed
	}, nil
}

func (t *terminalInput) readLine(prompt string) (string, bool, error) {
	line, pasted, err := t.editor.ReadLine(prompt)
	// The editor reports only lines that are pasted from their beginning. Three quotes before a
	// pasted text were typed, and begin a block.
	if err == nil && t.keys.pasting && !strings.HasPrefix(line, blockQuote) {
		pasted = true
	}
	if errors.Is(err, cli.ErrInterrupted) {
		*t.keys = keyReader{file: t.file} // without what was typed behind Ctrl-C
	}
	return line, pasted, err
}

// A keyReader replaces bytes that are not UTF-8, which would not be text. It returns at most one line
// at a time, so that pasting tells whether the end of the editor's line was pasted.
type keyReader struct {
	file     io.Reader
	pasting  bool // the bytes returned so far end in a pasted text
	marked   int  // bytes of the next mark of a paste at their end
	returned bool // they end in a carriage return
	buffer   [256]byte
	ready    []byte // text in the buffer
	begun    []byte // the first bytes of an incomplete character
}

func (k *keyReader) Read(p []byte) (int, error) {
	for !k.hasKey() {
		had := copy(k.buffer[:], k.begun)
		n, err := k.file.Read(k.buffer[had:])
		n, k.begun = legible(k.buffer[:had+n])
		k.ready = k.buffer[:n]
		if err != nil {
			return k.take(p), err
		}
	}
	return k.take(p), nil
}

// hasKey reports whether there are bytes to return. Of a line that ends with \r\n the \n is
// dropped: the editor drops it only if it comes with the \r, and else sees an empty line.
func (k *keyReader) hasKey() bool {
	if len(k.ready) > 0 && k.returned {
		k.ready = bytes.TrimPrefix(k.ready, []byte("\n"))
		k.returned = false
	}
	return len(k.ready) > 0
}

// take moves bytes to p, up to the end of a line.
func (k *keyReader) take(p []byte) (n int) {
	for n < len(p) && n < len(k.ready) {
		key := k.ready[n]
		k.follow(key)
		n++
		if k.returned = key == '\r'; k.returned || key == '\n' {
			break
		}
	}
	copy(p, k.ready[:n])
	k.ready = k.ready[n:]
	return n
}

// follow notices the beginnings and the ends of pasted texts.
func (k *keyReader) follow(key byte) {
	mark := cli.PasteBegin
	if k.pasting {
		mark = cli.PasteEnd
	}
	if key != mark[k.marked] {
		k.marked = 0
	}
	if key == mark[k.marked] {
		k.marked++
	}
	if k.marked == len(mark) {
		k.pasting, k.marked = !k.pasting, 0
	}
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
