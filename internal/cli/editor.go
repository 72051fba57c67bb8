package cli

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
)

// A LineEditor edits a line on a terminal, which has to be in raw mode, with the keys of other programs' line editors and with a
// history. It deletes and steps over whole clusters of characters, and breaks the line at the terminal's width itself.
type LineEditor struct {
	mu      sync.Mutex // SetSize may be called while a line is edited
	in      io.Reader
	history History

	line       []rune
	pos        int    // of the cursor, at the beginning of a cluster or at the end
	recalled   int    // 1: the newest line of the history; 0: none
	unfinished []rune // the line that was left for the history
	pasting    bool
	returned   bool   // the last key was a carriage return
	sent       []byte // by the terminal and not looked at, the beginning of a key
	failed     error  // of reading, behind what is sent

	drawing
}

// A History has the lines that were edited before. At(0) is the newest.
type History interface {
	Add(line string)
	Len() int
	At(i int) string
}

// NewLineEditor returns an editor of what a terminal sends.
func NewLineEditor(in io.Reader, out io.Writer, history History) *LineEditor {
	return &LineEditor{in: in, history: history, drawing: drawing{out: out, columns: 80, height: 24}}
}

// MarkPastes makes the terminal mark pasted text, or stop doing so.
func (e *LineEditor) MarkPastes(on bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	mode := "\x1b[?2004l"
	if on {
		mode = "\x1b[?2004h"
	}
	_, err := io.WriteString(e.out, mode)
	return err
}

// SetSize says how large the terminal is. What is drawn is drawn anew if its width has changed.
func (e *LineEditor) SetSize(columns, height int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	columns, height = max(columns, 1), max(height, 1)
	changed := columns != e.columns
	if changed && e.drawn {
		e.reflowed(columns, height)
	}
	e.columns, e.height = columns, height
	if !changed || !e.drawn {
		return nil
	}
	e.changed(0)
	e.redraw(e.line, e.pos)
	return e.send()
}

// ReadLine shows a prompt, and returns the line behind it when it is ended. pasted reports that the line with its end is
// pasted text. The errors are those of the input, io.EOF for Ctrl-D, and ErrInterrupted for Ctrl-C, which discards the line.
func (e *LineEditor) ReadLine(prompt string) (line string, pasted bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prompt = prompt; !e.drawn {
		e.changed(0)
		e.redraw(e.line, e.pos)
	}
	pasted = e.pasting
	for {
		ended, stopped := e.handle(&pasted)
		if ended {
			line = string(e.line)
			e.discard()
			e.history.Add(line)
			return line, pasted, e.send()
		}
		if stopped == nil {
			stopped, e.failed = e.failed, nil
		}
		if stopped != nil {
			e.sent = nil
			e.discard()
			return "", false, errors.Join(stopped, e.send())
		}
		if e.dirty {
			e.redraw(e.line, e.pos)
		}
		if err := e.send(); err != nil {
			return "", false, err
		}
		e.read()
	}
}

// read waits for what the terminal sends. Meanwhile its size may change.
func (e *LineEditor) read() {
	var sent [256]byte
	e.mu.Unlock()
	defer e.mu.Lock()
	n, err := e.in.Read(sent[:])
	e.sent, e.failed = append(e.sent, sent[:n]...), err // only ReadLine uses them
}

// handle does what the keys mean that were sent, up to the end of the line.
func (e *LineEditor) handle(pasted *bool) (ended bool, stopped error) {
	for {
		if e.returned && len(e.sent) > 0 {
			e.sent = bytes.TrimPrefix(e.sent, []byte("\n")) // the other half of the end of a line
			e.returned = false
		}
		k, n := nextKey(e.sent, e.pasting)
		if n == 0 {
			return false, nil
		}
		e.returned = e.sent[0] == '\r'
		e.sent = e.sent[n:]
		switch k {
		case keyPasteBegin:
			e.pasting = true
			*pasted = *pasted || len(e.line) == 0
			continue
		case keyPasteEnd:
			e.pasting = false
			continue
		}
		*pasted = *pasted && e.pasting
		switch {
		case k == keyInterrupt:
			return false, ErrInterrupted
		case k == keyDeleteOrEnd && len(e.line) == 0:
			return false, io.EOF
		case k == keyEnter:
			return true, nil
		}
		e.edit(k)
	}
}

// discard ends the line on the terminal, with the cursor behind it, and begins another one.
func (e *LineEditor) discard() {
	e.leave(e.line)
	e.line, e.pos, e.recalled, e.unfinished = e.line[:0], 0, 0, nil
}

// edit changes the line or moves the cursor.
func (e *LineEditor) edit(k key) {
	switch k {
	case keyLeft:
		e.move(clusterStart(e.line, e.pos))
	case keyRight:
		e.move(clusterEnd(e.line, e.pos))
	case keyWordLeft:
		e.move(e.wordStart())
	case keyWordRight:
		e.move(e.wordEnd())
	case keyHome:
		e.move(0)
	case keyEnd:
		e.move(len(e.line))
	case keyUp:
		e.recall(e.recalled + 1)
	case keyDown:
		e.recall(e.recalled - 1)
	case keyBackspace:
		e.remove(clusterStart(e.line, e.pos), e.pos)
	case keyDelete, keyDeleteOrEnd:
		e.remove(e.pos, clusterEnd(e.line, e.pos))
	case keyDeleteWord:
		e.remove(e.wordStart(), e.pos)
	case keyDeleteBefore:
		e.remove(0, e.pos)
	case keyDeleteBehind:
		e.remove(e.pos, len(e.line))
	case keyTranspose:
		e.transpose()
	case keyClear:
		e.clear()
	case keyUnknown:
	default:
		e.insert(rune(k))
	}
	if e.pos < len(e.line) && joins(e.line, e.pos) { // with what has come before it
		e.pos = clusterEnd(e.line, e.pos)
	}
}

// move moves the cursor.
func (e *LineEditor) move(pos int) {
	e.dirty = e.dirty || pos != e.pos
	e.pos = pos
}

// insert inserts a character before the cursor.
func (e *LineEditor) insert(r rune) {
	e.line = slices.Insert(e.line, e.pos, r)
	e.pos++
	if e.pos == len(e.line) && !e.dirty && e.extend(e.line) {
		return
	}
	e.changed(e.pos - 1)
}

// remove removes characters.
func (e *LineEditor) remove(from, to int) {
	if from < to {
		e.line = slices.Delete(e.line, from, to)
		e.pos = from
		e.changed(from)
	}
}

// transpose exchanges the clusters on both sides of the cursor, at the end of the line those before it.
func (e *LineEditor) transpose() {
	middle := e.pos
	if middle == len(e.line) {
		middle = clusterStart(e.line, middle)
	}
	if middle == 0 {
		return
	}
	start, end := clusterStart(e.line, middle), clusterEnd(e.line, middle)
	copy(e.line[start:end], slices.Concat(e.line[middle:end], e.line[start:middle]))
	e.pos = end
	e.changed(start)
}

// recall puts a line of the history in place of the line, 0: the unfinished one.
func (e *LineEditor) recall(i int) {
	if i < 0 || i > e.history.Len() {
		return
	}
	if e.recalled == 0 {
		e.unfinished = slices.Clone(e.line)
	}
	e.recalled = i
	if i == 0 {
		e.line = e.unfinished
	} else {
		e.line = []rune(e.history.At(i - 1))
	}
	e.pos = len(e.line)
	e.changed(0)
}

// wordStart returns where the word before the cursor begins.
func (e *LineEditor) wordStart() int {
	i := e.pos
	for i > 0 && e.line[i-1] == ' ' {
		i--
	}
	for i > 0 && (e.line[i-1] != ' ' || joins(e.line, i)) { // a space may have an accent
		i--
	}
	return i
}

// wordEnd returns where the word after the one at the cursor begins.
func (e *LineEditor) wordEnd() int {
	i := e.pos
	for i < len(e.line) && e.line[i] != ' ' {
		i++
	}
	for i < len(e.line) && (e.line[i] == ' ' || joins(e.line, i)) {
		i++
	}
	return i
}
