package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// promptFlags are the flags of the prompt.
type promptFlags struct {
	text  *string
	files []string
	ram   *ramFlag // --ram; nil for commands without it

	document int // bytes of the text that read returned which come from file, if text follows; 0: all is the prompt
}

func (p *promptFlags) add(f *cli.FlagSet) {
	f.OptionalText(&p.text, "p prompt", "TEXT", "the prompt")
	f.List(&p.files, "f file", "FILE", "read the prompt from FILE, or - for standard input; with -p, the file comes first, then an empty line, then TEXT; may be given several times: each file then follows its name")
}

// given reports whether a flag named a prompt.
func (p *promptFlags) given() bool { return p.text != nil || len(p.files) > 0 }

// read returns the prompt of the flags, or else of standard input, which is also the document beside -p. It drops the
// last line break of a file unless exact is set.
func (p *promptFlags) read(s *cli.Streams, exact bool) (string, error) {
	if p.text != nil && len(p.files) == 0 {
		piped, err := p.readPiped(s)
		if err != nil || piped == "" {
			return *p.text, errors.Join(err, p.checkText())
		}
		return p.joined(piped), nil
	}
	files := p.files
	if len(files) == 0 {
		if s.InTerminal {
			return "", cli.Usagef("the prompt is missing: give -p TEXT or -f FILE, or pipe it in")
		}
		files = []string{"-"}
	}
	text, err := p.readFiles(s, files)
	if err != nil {
		return "", err
	}
	if p.text != nil {
		return p.joined(text), nil
	}
	if !exact {
		text = trimLineEnd(text)
	}
	return nonEmpty(text)
}

// hasDocument reports whether the prompt that was read begins with a document, or is one.
func (p *promptFlags) hasDocument() bool { return p.document > 0 || p.text == nil }

// checkText refuses an empty text of -p.
func (p *promptFlags) checkText() error {
	_, err := nonEmpty(*p.text)
	return err
}

// joined returns a document and the text of -p behind it.
func (p *promptFlags) joined(document string) string {
	document = trimLineEnd(document)
	p.document = len(document)
	return document + "\n\n" + *p.text
}

// readPiped returns what is piped in beside -p, "" without anything. A terminal and devices are no document.
func (p *promptFlags) readPiped(s *cli.Streams) (string, error) {
	if s.In == nil || s.InTerminal {
		return "", nil
	}
	info, err := s.In.Stat()
	if err != nil || !info.Mode().IsRegular() && info.Mode()&fs.ModeNamedPipe == 0 {
		return "", nil
	}
	waiting := time.AfterFunc(pipeNote, func() {
		s.Note("waiting for the document on standard input; < /dev/null says that there is none")
	})
	defer waiting.Stop()
	text, err := p.readFile(s, "-", "")
	if strings.TrimSpace(text) == "" {
		return "", err
	}
	return text, err
}

// pipeNote is how long a pipe may be silent until the user is told that it is read.
const pipeNote = 2 * time.Second

// readFiles reads the files of the prompt. Several stand in their order, each behind its name.
func (p *promptFlags) readFiles(s *cli.Streams, names []string) (string, error) {
	if len(names) == 1 {
		return p.readFile(s, names[0], "")
	}
	var all strings.Builder
	for i, name := range names {
		if name == "-" && slices.Contains(names[:i], "-") {
			return "", cli.Usagef("-f: standard input can be read once only")
		}
		text, err := p.readFile(s, name, all.String())
		if err != nil {
			return "", countRest(s, err, names[i+1:])
		}
		if i > 0 {
			all.WriteString("\n\n")
		}
		if name == "-" {
			name = "standard input"
		}
		fmt.Fprintf(&all, "%s:\n\n%s", name, trimLineEnd(text))
		if all.Len() > cli.MaxInput {
			return "", fmt.Errorf("-f: %w", cli.TooMuch("all files together"))
		}
	}
	if p.ram != nil && p.ram.bytes > 0 && int64(all.Len()) > p.ram.bytes/promptPart {
		long := &longPrompt{flag: "-f", limit: p.ram.bytes / promptPart, parts: promptPart, bytes: int64(all.Len())}
		long.begin.WriteString(all.String()[:min(all.Len(), longBegin)])
		return "", long
	}
	return all.String(), nil
}

// countRest adds the files behind a prompt that is too long to its refusal. It returns another error as it is.
func countRest(s *cli.Streams, err error, names []string) error {
	var long *longPrompt
	if !errors.As(err, &long) {
		return err
	}
	for _, name := range names {
		if _, err := cli.ReadUpTo(s, "-f", name, 0, long.count); err != nil && !errors.Is(err, cli.ErrTooLong) {
			return err
		}
	}
	return long
}

// promptPart is the part of --ram that the text of a prompt may take: the conversion into
// tokens takes several times its size.
const promptPart = 8

// readFile reads a file of the prompt as text, behind another text.
func (p *promptFlags) readFile(s *cli.Streams, name, before string) (string, error) {
	long := &longPrompt{flag: "-f", parts: promptPart, beside: int64(len(before))}
	long.begin.WriteString(before[:min(len(before), longBegin)])
	data, err := readBehind(s, name, p.ram, long)
	if err != nil {
		return "", err
	}
	text, err := llmrun.PlainText(name, data)
	if err != nil {
		if name == "-" {
			name = "standard input"
		}
		return "", fmt.Errorf("-f: %s: %w", name, err)
	}
	return text, nil
}

// longPrompt is the refusal of a prompt before it is in memory.
type longPrompt struct {
	flag   string
	limit  int64 // bytes, 1/parts of --ram
	parts  int64
	bytes  int64           // of the prompt, or more than cli.MaxInput
	beside int64           // bytes of the messages or files before it
	tokens int             // that it lists, if it is a list
	begin  strings.Builder // of a text, at most longBegin bytes
}

// longBegin is how much of a text that is not read tells whether its context is too small in any budget. Texts of as many
// bytes have more tokens than most contexts.
const longBegin = 1 << 20

func (p *longPrompt) Error() string {
	if p.bytes > cli.MaxInput {
		return fmt.Sprintf("%s: %v: the prompt has more than %s, 1/%d of --ram, and more than %s, the maximum of any text; split it",
			p.flag, llmrun.ErrBudget, cli.FormatBytes(p.limit), p.parts, cli.FormatBytes(cli.MaxInput))
	}
	return fmt.Sprintf("%s: %v: the prompt has more than %s, 1/%d of --ram; raise --ram or split the text", p.flag, llmrun.ErrBudget, cli.FormatBytes(p.limit), p.parts)
}

// Unwrap makes errors.Is(err, llmrun.ErrBudget) true.
func (p *longPrompt) Unwrap() error { return llmrun.ErrBudget }

// textHeap bounds the program's heap that a plan reserves for a text in memory: one and a half
// times its size, rounded up.
func textHeap(bytes int64) int64 { return bytes/2*3 + 6<<20 }

// memory returns the memory that the prompt takes, its text included.
func (p *longPrompt) memory() int64 {
	if p.parts == idsPart { // no text to convert: what the part stands for
		return idsPart * p.bytes
	}
	return llmrun.PromptMemory(p.bytes+p.beside) + textHeap(p.bytes+p.beside)
}

// count counts the bytes of the prompt, and the tokens of a list, without holding it.
func (p *longPrompt) count(text io.Reader) error {
	window, inField := make([]byte, 4<<10), false
	if p.parts != idsPart {
		p.begin.Grow(longBegin - p.begin.Len())
	}
	for {
		n, err := text.Read(window)
		p.bytes += int64(n)
		if p.parts != idsPart {
			p.begin.Write(window[:min(n, longBegin-p.begin.Len())])
		}
		for _, c := range window[:n] {
			separates := c == ',' || unicode.IsSpace(rune(c))
			if p.parts == idsPart && inField && separates {
				p.tokens++
			}
			inField = !separates
		}
		switch {
		case errors.Is(err, io.EOF):
			if p.parts == idsPart && inField {
				p.tokens++
			}
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", p.flag, err)
		case p.bytes > cli.MaxInput:
			return nil // it may have no end
		}
	}
}

// stateMinimum returns the refusal of a model for a prompt that is too long to be read, which
// states a budget for both, or err for any other error. overflow tells whether the context must
// have room for the tokens.
func (m *modelFlags) stateMinimum(ctx context.Context, s *cli.Streams, overflow llmrun.Overflow, err error) error {
	var long *longPrompt
	if !errors.As(err, &long) || long.bytes > cli.MaxInput {
		return err
	}
	m.prompt.expectLong(overflow, long)
	engine, refused := m.open(ctx, s)
	if refused == nil {
		return errors.Join(err, engine.Close())
	}
	return long.refusal(refused)
}

// refusal adds the prompt to the refusal of its model, which is nil if the budget has room for the model.
func (p *longPrompt) refusal(refused error) error {
	switch {
	case refused == nil:
		return p
	case errors.Is(refused, llmrun.ErrBudget):
		return fmt.Errorf("%s: the prompt has more than %s, 1/%d of --ram: %w", p.flag, cli.FormatBytes(p.limit), p.parts, refused)
	}
	return refused
}

// promptNeed is what is known of the longest prompt before the model is opened.
type promptNeed struct {
	bytes     int64    // of text that is converted at once
	memory    int64    // that the prompt takes
	texts     []string // its texts, and
	tokens    int      // tokens beside them, for which the context must have room
	answer    int      // most tokens of the answer, if they are limited
	logitRows int      // rows of logits that are computed at once
}

// expect records a prompt. A context that slides does not need room for all of it.
func (n *promptNeed) expect(overflow llmrun.Overflow, tokens int, texts ...string) {
	for _, text := range texts {
		n.bytes += int64(len(text))
	}
	n.memory = llmrun.PromptMemory(n.bytes)
	if overflow != llmrun.OverflowSlide {
		n.texts, n.tokens = append(n.texts, texts...), n.tokens+tokens
	}
}

// expectLong is expect for a prompt that is too long to be read.
func (n *promptNeed) expectLong(overflow llmrun.Overflow, long *longPrompt) {
	n.memory = long.memory()
	if overflow == llmrun.OverflowSlide {
		return
	}
	n.tokens = long.tokens
	if begin := long.begin.String(); begin != "" {
		n.texts = []string{begin}
	}
}

// readPart reads the file that a flag names. With --ram it refuses a text that takes more than
// one part of it, before it is in memory.
func readPart(s *cli.Streams, flag, name string, ram *ramFlag, parts int64) (string, error) {
	return readBehind(s, name, ram, &longPrompt{flag: flag, parts: parts})
}

// readBehind is readPart for a text behind others that are in memory: one part of --ram is for all. long becomes the
// refusal; it knows the bytes before the text.
func readBehind(s *cli.Streams, name string, ram *ramFlag, long *longPrompt) (string, error) {
	if ram == nil || ram.bytes <= 0 || ram.bytes/long.parts >= cli.MaxInput {
		return cli.ReadAll(s, long.flag, name)
	}
	long.limit = ram.bytes / long.parts
	text, err := cli.ReadUpTo(s, long.flag, name, max(0, long.limit-long.beside), long.count)
	if errors.Is(err, cli.ErrTooLong) {
		err = long
	}
	return text, err
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

// idsPart is the part of --ram that the text of --ids may take: an id of two characters takes
// 4 bytes, and as much again in the session.
const idsPart = 16

// readIDs returns the token ids of --ids: list is the list itself, or "-" for standard input.
// ram limits the length of the text; nil does not.
func readIDs(s *cli.Streams, list string, ram *ramFlag) ([]int32, error) {
	if list == "" {
		return nil, cli.Usagef("--ids is missing")
	}
	if list == "-" {
		piped, err := readPart(s, "--ids", "-", ram, idsPart)
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
	fields := strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	n := 0
	for range fields {
		n++
	}
	if n == 0 {
		return nil, errors.New("must be token ids such as 1,2,3, and there are none")
	}
	ids := make([]int32, 0, n) // a list that grows takes twice its size
	for field := range fields {
		id, err := strconv.ParseInt(field, 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("must be token ids such as 1,2,3, but number %d is %.40q", len(ids)+1, field)
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
