package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/llmrun/llmrun/internal/cli"
)

// promptFlags are the flags of the prompt.
type promptFlags struct {
	text *string
	file string
}

func (p *promptFlags) add(f *cli.FlagSet) {
	f.OptionalText(&p.text, "p prompt", "TEXT", "the prompt")
	f.Text(&p.file, "f file", "FILE", "read the prompt from FILE, or - for standard input; with -p, the file comes first, then an empty line, then TEXT")
}

// given reports whether a flag named a prompt.
func (p *promptFlags) given() bool { return p.text != nil || p.file != "" }

// read returns the prompt of the flags, or else of standard input. It drops the last line break
// of a file unless exact is set.
func (p *promptFlags) read(s *cli.Streams, exact bool) (string, error) {
	if p.text != nil && p.file == "" {
		return nonEmpty(*p.text)
	}
	file := p.file
	if file == "" {
		if s.InTerminal {
			return "", cli.Usagef("the prompt is missing: give -p TEXT or -f FILE, or pipe it in")
		}
		file = "-"
	}
	text, err := cli.ReadAll(s, "-f", file)
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
		return "", cli.Usagef("the prompt is empty: give -p TEXT or -f FILE, or pipe it in")
	}
	return prompt, nil
}

// trimLineEnd removes one line break at the end of text.
func trimLineEnd(text string) string {
	return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
}

// readIDs returns the token ids of --ids: list is the list itself, or "-" for standard input.
func readIDs(s *cli.Streams, list string) ([]int32, error) {
	if list == "" {
		return nil, cli.Usagef("--ids is missing")
	}
	if list == "-" {
		piped, err := cli.ReadAll(s, "--ids", "-")
		if err != nil {
			return nil, err
		}
		list = piped
	}
	ids, err := parseIDs(list)
	if err != nil {
		return nil, cli.Usagef("--ids: %v", err)
	}
	return ids, nil
}

// parseIDs reads token ids that are separated by commas or white space.
func parseIDs(text string) ([]int32, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(fields) == 0 {
		return nil, errors.New("must be token ids such as 1,2,3, and there are none")
	}
	ids := make([]int32, 0, len(fields))
	for i, field := range fields {
		id, err := strconv.ParseInt(field, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("must be token ids such as 1,2,3, but number %d is %q", i+1, field)
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

// checkIDs refuses ids outside the vocabulary.
func checkIDs(flag string, ids []int32, vocabulary int) error {
	for i, id := range ids {
		if int(id) >= vocabulary {
			return cli.Usagef("%s: must be token ids from 0 to %d, which the model has, but number %d is %d", flag, vocabulary-1, i+1, id)
		}
	}
	return nil
}
