package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// heldConversation is the most text of all messages of a file that a plan holds, in bytes.
const heldConversation = 256 << 10

// expectInput tells the plan what the messages need that are known before the model is opened: the
// system message, and those of an input that is a regular file. A short conversation needs room as a
// whole, and a longer one, or one in a context that slides, for its largest message.
func (c *chatFlags) expectInput(s *cli.Streams) error {
	need, overflow := &c.model.prompt, c.generation.overflow
	if c.system != nil {
		need.expect(overflow, 0, *c.system)
	}
	rest := restOf(s.In)
	if rest == nil {
		return nil
	}
	known, err := knownMessages(rest, c.model.ram.bytes)
	var long *longPrompt
	switch {
	case errors.As(err, &long):
		long.beside = need.bytes
		return err
	case err != nil:
		return err
	case known.bytes <= heldConversation && overflow != llmrun.OverflowSlide:
		need.expect(overflow, 0, known.start.String())
	default:
		need.expect(overflow, 0, known.largest)
	}
	return nil
}

// messageSizes describes the messages of a file.
type messageSizes struct {
	bytes   int             // of all messages
	start   strings.Builder // all messages, or those in the first heldConversation bytes
	largest string          // the message with the most bytes
}

// knownMessages reads a file as the conversation will. It holds a message at a time, the largest so
// far, and a short conversation. It refuses a file with a message that is too long to be read, for the
// longest of these.
func knownMessages(file *io.SectionReader, ram int64) (*messageSizes, error) {
	known, in := &messageSizes{}, &pipeInput{lines: bufio.NewReader(file), ram: ram}
	var longest *longPrompt
	for {
		message, err := readMessage(in)
		var long *longPrompt
		switch {
		case errors.Is(err, io.EOF) && longest != nil:
			return nil, longest
		case errors.Is(err, io.EOF):
			return known, nil
		case errors.As(err, &long):
			if longest == nil || long.bytes > longest.bytes {
				longest = long
			}
			if long.bytes > cli.MaxInput {
				return nil, longest
			}
		case err != nil:
			return nil, err
		default:
			known.add(message)
		}
	}
}

// add counts a message.
func (m *messageSizes) add(message string) {
	if len(message) > len(m.largest) {
		m.largest = message
	}
	if m.bytes += len(message) + 1; m.bytes <= heldConversation {
		m.start.WriteString(message)
		m.start.WriteByte('\n')
	}
}

// restOf returns what is left to read of a regular file, or nil for another input.
func restOf(file *os.File) *io.SectionReader {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	at, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	return io.NewSectionReader(file, at, info.Size()-at)
}
