package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// promptFlags say what a model is to read.
type promptFlags struct {
	text *string
	file string
}

func (p *promptFlags) add(f *flagSet) {
	f.optionalText(&p.text, "p prompt", "TEXT", "the prompt")
	f.text(&p.file, "f file", "FILE", "read the prompt from FILE, - for standard input; with -p too, the file comes first, then an empty line, then TEXT")
}

// given reports whether a flag named a prompt.
func (p *promptFlags) given() bool { return p.text != nil || p.file != "" }

// read returns the prompt: from the flags, or else from whatever is piped in.
// A file's last line break is left out, as it ends the line and belongs to no
// sentence, unless the text is asked for exactly.
func (p *promptFlags) read(s *streams, exact bool) (string, error) {
	if p.text != nil && p.file == "" {
		return nonEmpty(*p.text)
	}
	file := p.file
	if file == "" {
		if s.inTerminal {
			return "", usagef("there is no prompt: give -p TEXT or -f FILE, or pipe it in")
		}
		file = "-"
	}
	text, err := readAll(s, "-f", file)
	if err != nil {
		return "", err
	}
	if p.text != nil {
		return trimLineEnd(text) + "\n\n" + *p.text, nil
	}
	if !exact {
		text = trimLineEnd(text)
	}
	return nonEmpty(text)
}

func nonEmpty(prompt string) (string, error) {
	if prompt == "" {
		return "", usagef("the prompt is empty: give -p TEXT or -f FILE, or pipe it in")
	}
	return prompt, nil
}

// trimLineEnd takes away one line break at the end of text.
func trimLineEnd(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// readAll returns the contents of a file, or of standard input for "-". flag is
// named in the error.
func readAll(s *streams, flag, name string) (string, error) {
	if name == "-" {
		text, err := io.ReadAll(s.in)
		if err != nil {
			return "", fmt.Errorf("%s: reading standard input: %w", flag, err)
		}
		return string(text), nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return string(text), nil
}

// readText is readAll for a text that must not be empty.
func readText(s *streams, flag, name string) (string, error) {
	text, err := readAll(s, flag, name)
	if err == nil && strings.TrimSpace(text) == "" {
		err = usagef("%s: %s has no text", flag, name)
	}
	return text, err
}

// readIDs returns the token ids of an --ids flag: its value is the list, or "-"
// for one on standard input.
func readIDs(s *streams, list string) ([]int32, error) {
	if list == "" {
		return nil, usagef("--ids is missing")
	}
	if list == "-" {
		piped, err := readAll(s, "--ids", "-")
		if err != nil {
			return nil, err
		}
		list = piped
	}
	ids, err := parseIDs(list)
	if err != nil {
		return nil, usagef("--ids: %v", err)
	}
	return ids, nil
}

// parseIDs reads token ids that are separated by commas or white space.
func parseIDs(text string) ([]int32, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(fields) == 0 {
		return nil, fmt.Errorf("holds no token ids")
	}
	ids := make([]int32, 0, len(fields))
	for i, field := range fields {
		id, err := strconv.ParseInt(field, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("%q, number %d in the list, is not a token id", field, i+1)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}

// formatIDs is the reverse of parseIDs.
func formatIDs(ids []int32) string {
	fields := make([]string, len(ids))
	for i, id := range ids {
		fields[i] = strconv.Itoa(int(id))
	}
	return strings.Join(fields, ",")
}

// checkIDs refuses ids that the model does not have, before it is asked to work.
func checkIDs(flag string, ids []int32, vocabulary int) error {
	for i, id := range ids {
		if int(id) >= vocabulary {
			return fmt.Errorf("%s: %d, number %d in the list, is not a token of the model: it has 0 to %d", flag, id, i+1, vocabulary-1)
		}
	}
	return nil
}
