package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

// maxProgram is the largest size of the program without its model. net/http, with the TLS that it always has, takes 3.3 MiB
// of it.
const maxProgram = 19 << 20

// consoleBlock is a transcript in a document: commands after "$ ", each followed by its standard
// output.
var consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```")

// TestDocumentsDescribeTheCommand builds llmrun once and compares the documents with it.
func TestDocumentsDescribeTheCommand(t *testing.T) {
	binary := buildProgram(t, "llmrun")
	docs := documents(t)

	t.Run("size", func(t *testing.T) {
		info, err := os.Stat(binary)
		if err != nil {
			t.Fatal(err)
		}
		model, err := os.Stat(filepath.Join(testutil.Root(t), "cmd", "llmrun", "bundled", "model.pack"))
		if err != nil {
			t.Fatal(err)
		}
		if size := info.Size() - model.Size(); size > maxProgram {
			t.Errorf("the program has %d bytes beside its model, more than %d", size, maxProgram)
		}
	})

	t.Run("commands", func(t *testing.T) { checkCommands(t, docs, "llmrun", binary) })
	t.Run("laboratory", func(t *testing.T) { checkCommands(t, docs, "llmlab", buildProgram(t, "llmlab")) })

	t.Run("transcripts", func(t *testing.T) {
		home := t.TempDir() // cache directory of the commands
		for name, text := range docs {
			for _, block := range consoleBlock.FindAllStringSubmatch(text, -1) {
				for _, entry := range transcript(block[1]) {
					checkTranscript(t, binary, home, name, entry)
				}
			}
		}
	})
}

// checkCommands fails for each command in a document that the program's help does not list.
func checkCommands(t *testing.T, docs map[string]string, program, binary string) {
	t.Helper()
	help, err := exec.Command(binary, "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	mention := regexp.MustCompile("(?m)(?:^\\$ |^ {4}|`|\\| )(?:bin/)?" + program + " ([a-z][a-z0-9]*)")
	found := 0
	for name, text := range docs {
		for _, match := range mention.FindAllStringSubmatch(text, -1) {
			found++
			listed := regexp.MustCompile(`(?m)^\s+` + match[1] + `\b`)
			if match[1] != "help" && !listed.Match(help) {
				t.Errorf("%s mentions `%s %s`, which `%s help` does not list", name, program, match[1], program)
			}
		}
	}
	if found == 0 {
		t.Errorf("no document mentions a command of %s", program)
	}
}

// command is one line of a transcript with its output.
type command struct{ line, output string }

// transcript splits a console block into its commands.
func transcript(block string) []command {
	var entries []command
	for line := range strings.Lines(block) {
		if rest, ok := strings.CutPrefix(line, "$ "); ok {
			entries = append(entries, command{line: strings.TrimSpace(rest)})
		} else if len(entries) > 0 {
			entries[len(entries)-1].output += line
		}
	}
	return entries
}

// checkTranscript runs one line in the repository's root and compares standard output. It ignores
// standard error, which contains timings.
func checkTranscript(t *testing.T, binary, home, document string, entry command) {
	t.Helper()
	words := strings.Fields(entry.line)
	if !slices.Contains(words, "llmrun") {
		return // make and installation commands do not run here
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("transcripts are written for bash, which is not here")
	}
	shell := exec.Command(bash, "-c", entry.line)
	shell.Dir = testutil.Root(t)
	path := filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH")
	shell.Env = append(os.Environ(), "PATH="+path, "HOME="+home, "XDG_CACHE_HOME="+home, "LLMRUN_CONFIG="+os.DevNull)
	var stdout, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, &stderr
	if err := shell.Run(); err != nil {
		t.Errorf("%s: $ %s: %v\n%s", document, entry.line, err, stderr.String())
		return
	}
	if got := strings.TrimSpace(stdout.String()); got != strings.TrimSpace(entry.output) {
		t.Errorf("%s: $ %s\nprints\n%s\nand not\n%s", document, entry.line, got, entry.output)
	}
}
