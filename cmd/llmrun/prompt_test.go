package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/deviceplan"
)

// streamsWithInput returns streams whose input is text from a file.
func streamsWithInput(t *testing.T, text string) *cli.Streams {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stdin")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	file, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { file.Close() })
	return &cli.Streams{In: file}
}

// TestReadPrompt checks the prompts that flags, files and standard input give.
func TestReadPrompt(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note.md")
	require.NoError(t, os.WriteFile(note, []byte("The note.\n\n"), 0o600))
	question := "Who?"
	tests := []struct {
		name   string
		prompt promptFlags
		stdin  string
		exact  bool
		want   string
	}{
		{"text", promptFlags{text: &question}, "", false, "Who?"},
		{"a document beside the text", promptFlags{text: &question}, "Hello\n", false, "Hello\n\nWho?"},
		{"only white space beside the text", promptFlags{text: &question}, " \n", false, "Who?"},
		{"several files", promptFlags{files: []string{note, "-"}, text: &question}, "Hello\n", false, note + ":\n\nThe note.\n\n\nstandard input:\n\nHello\n\nWho?"},
		{"byte order mark", promptFlags{}, "\ufeffHello", false, "Hello"},
		{"UTF-16", promptFlags{}, "\xff\xfeH\x00i\x00\xe9\x00", false, "Hié"},
		{"HTML stays as it is", promptFlags{text: &question}, "<!DOCTYPE html><p>x", false, "<!DOCTYPE html><p>x\n\nWho?"},
		{"file", promptFlags{files: []string{note}}, "", false, "The note.\n"},
		{"exact file", promptFlags{files: []string{note}}, "", true, "The note.\n\n"},
		{"file, then text", promptFlags{files: []string{note}, text: &question}, "", false, "The note.\n\n\nWho?"},
		{"piped", promptFlags{}, "Hello\r\n", false, "Hello"},
		{"piped, exact", promptFlags{}, "Hello\r\n", true, "Hello\r\n"},
		{"piped, then text", promptFlags{files: []string{"-"}, text: &question}, "Hello\n", false, "Hello\n\nWho?"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.prompt.read(streamsWithInput(t, test.stdin), test.exact)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// TestReadPromptRefuses checks the errors for missing and empty prompts.
func TestReadPromptRefuses(t *testing.T) {
	empty := ""
	tests := []struct {
		name     string
		prompt   promptFlags
		terminal bool
		want     string
	}{
		{"no flag, on a terminal", promptFlags{}, true, "the prompt is missing"},
		{"empty input", promptFlags{}, false, "the prompt is empty"},
		{"empty text", promptFlags{text: &empty}, false, "the prompt is empty"},
		{"no such file", promptFlags{files: []string{"no-such-file"}}, false, "-f: open no-such-file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := streamsWithInput(t, "")
			s.InTerminal = test.terminal
			_, err := test.prompt.read(s, false)
			require.ErrorContains(t, err, test.want)
		})
	}
}

// TestReadPromptRefusesOtherFiles checks that files which are no text are refused with the command that makes text of
// them, from a file and from a pipe, and that several files have room in --ram together.
func TestReadPromptRefusesOtherFiles(t *testing.T) {
	question, dir := "Who?", t.TempDir()
	for name, c := range map[string]struct{ data, want string }{
		"paper.pdf":  {"%PDF-1.7\n%\xe2", "this is a PDF file, not text: pdftotext -layout NAME - | llmrun run -f -"},
		"a.docx":     {"PK\x03\x04[Content_Types].xml word/", "this is a Word file, not text: pandoc -t plain NAME | llmrun run -f -"},
		"book.epub":  {"PK\x03\x04\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x14\x00\x00\x00\x14\x00\x00\x00\x08\x00\x00\x00mimetypeapplication/epub+zip", "this is an EPUB book, not text: llmrun summarize NAME"},
		"x.bin":      {"a\x00b", "this is binary (a zero byte at offset 1), not text: name a text"},
		"latin.txt":  {"caf\xe9", "this is no UTF-8 (a byte 0xe9 at offset 3), not text: if it is in an older encoding, iconv"},
		"model.gguf": {"GGUF\x03", "this is a model, not text: -m takes models"},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(c.data), 0o600))
		for shown, prompt := range map[string]promptFlags{path: {files: []string{path}, text: &question}, "FILE": {text: &question}} {
			_, err := prompt.read(streamsWithInput(t, c.data), false)
			require.ErrorIs(t, err, llmrun.ErrNotText, name)
			require.ErrorContains(t, err, strings.ReplaceAll(c.want, "NAME", shown), name)
		}
	}
	long := filepath.Join(dir, "long.txt")
	require.NoError(t, os.WriteFile(long, []byte(strings.Repeat("word ", 1000)), 0o600))
	prompt := promptFlags{files: []string{long, long}, ram: &ramFlag{bytes: 60000}}
	_, err := prompt.read(streamsWithInput(t, ""), false)
	require.ErrorIs(t, err, llmrun.ErrBudget)
	prompt.files = []string{"-", long, "-"}
	_, err = prompt.read(streamsWithInput(t, "x"), false)
	require.ErrorContains(t, err, "-f: standard input can be read once only")
}

// TestParseIDs checks lists of token ids and their errors.
func TestParseIDs(t *testing.T) {
	tests := []struct {
		text string
		want []int32
		err  string
	}{
		{"1,2,3", []int32{1, 2, 3}, ""},
		{" 1 2\n3\t,4,\r\n", []int32{1, 2, 3, 4}, ""},
		{"2147483647", []int32{2147483647}, ""},
		{"", nil, "must be token ids such as 1,2,3, and there are none"},
		{" , ", nil, "must be token ids such as 1,2,3, and there are none"},
		{"1,-2", nil, `must be token ids such as 1,2,3, but number 2 is "-2"`},
		{"2147483648", nil, `number 1 is "2147483648"`},
		{"1,two", nil, `number 2 is "two"`},
		{"1.5", nil, `number 1 is "1.5"`},
	}
	for _, test := range tests {
		t.Run(test.text, func(t *testing.T) {
			got, err := parseIDs(test.text)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// TestCheckIDs checks that ids must be less than the vocabulary size.
func TestCheckIDs(t *testing.T) {
	require.NoError(t, checkIDs("--ids", []int32{0, 9}, 10))
	require.EqualError(t, checkIDs("--ids", []int32{0, 10}, 10),
		"--ids: must be token ids from 0 to 9, which the model has, but number 2 is 10")
}

// TestParsePositions checks the values of --at and their errors.
func TestParsePositions(t *testing.T) {
	tests := []struct {
		at   string
		want []int
		err  string
	}{
		{"last", []int{3}, ""},
		{"all", []int{0, 1, 2, 3}, ""},
		{"0,2", []int{0, 2}, ""},
		{"3, 1,3", []int{3, 1, 3}, ""},
		{"4", nil, "must be positions from 0 to 3, the last of the ids, not 4"},
		{"-1", nil, "not -1"},
		{"first", nil, `must be last, all, or positions such as 0,4, not "first"`},
		{"", nil, "must be last, all, or positions"},
	}
	for _, test := range tests {
		t.Run(test.at, func(t *testing.T) {
			got, err := parsePositions(test.at, 4)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// TestRefusalOfATextNamesItsLimit reads a file that is longer than any text may be, with budgets whose
// part is less and more than that.
func TestRefusalOfATextNamesItsLimit(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sparse")
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, cli.MaxInput+1))
	for ram, want := range map[int64]string{
		100 << 20: "-f: memory budget exceeded: the prompt has more than 12.5 MiB, 1/8 of --ram, and more than 64.0 MiB, the maximum of any text; split it",
		512 << 20: "-f: " + name + " has more than 64.0 MiB of text, the maximum; split it",
		2 << 30:   "-f: " + name + " has more than 64.0 MiB of text, the maximum; split it",
	} {
		_, err := readPart(&cli.Streams{}, "-f", name, &ramFlag{bytes: ram}, promptPart)
		require.EqualError(t, err, want)
		require.Equal(t, ram < 512<<20, errors.Is(err, llmrun.ErrBudget))
		stated := new(modelFlags).stateMinimum(t.Context(), &cli.Streams{}, "", err)
		require.Equal(t, err, stated, "no budget is enough")
	}
}

// TestModelNamesStayInTheirLine prints a plan for devices of a model whose name has a line break.
func TestModelNamesStayInTheirLine(t *testing.T) {
	plan := &deviceplan.DevicePlan{Model: "a\nb\tc\x1b.gguf", Devices: []deviceplan.PlannedDevice{{Name: "cpu"}}}
	var out strings.Builder
	showDevicePlan(&out, plan)
	first, _, _ := strings.Cut(out.String(), "\n")
	require.Regexp(t, "^Matmuls of a\u240ab\u2409c\u241b.gguf on .*; times in microseconds.$", first)
	require.Equal(t, "a\nb\tc\x1b.gguf", plan.Model)
}
