package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// hostileName is a file name that would change the colour and the order of what a terminal shows.
const hostileName = "n\x1b[31m\u202ex"

// hostileFiles are files and directories whose names are hostileName with a suffix.
type hostileFiles struct {
	dir                       string // of all of them
	model, pack, damaged, hub string
	adapter, cache, text, no  string // no does not exist
	messages                  string
}

func newHostileFiles(t *testing.T) *hostileFiles {
	dir := filepath.Join(t.TempDir(), hostileName)
	require.NoError(t, os.Mkdir(dir, 0o700))
	at := func(name string) string { return filepath.Join(dir, hostileName+name) }
	h := &hostileFiles{dir, at(".gguf"), at(".pack"), at("d.pack"), at("hub"), at("lora"), at("cache"), at(".txt"), at("no"), at(".json")}
	copyFile := func(from, to string) []byte {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, data, 0o600))
		return data
	}
	copyFile(shapedModel(t, "tiny"), h.model)
	data := copyFile(filepath.Join("bundled", "model.pack"), h.pack)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(h.damaged, data, 0o600))
	require.NoError(t, os.CopyFS(h.hub, os.DirFS(hubmodel.Dir(testutil.Root(t)))))
	require.NoError(t, os.Mkdir(h.adapter, 0o700))
	require.NoError(t, os.WriteFile(h.text, []byte("Once upon a time there was a fox.\n"), 0o600))
	require.NoError(t, os.WriteFile(h.messages, []byte(`[{"role":"user","content":"Hi"}]`), 0o600))
	return h
}

// commandLines returns command lines of all commands that take names, good and bad ones.
func (h *hostileFiles) commandLines() [][]string {
	cache := []string{"--cache-dir", h.cache}
	with := func(more []string, arguments ...string) []string { return append(arguments, more...) }
	return [][]string{
		{"bench", "-m", h.model, "--pp", "4", "--tg", "2", "-r", "1"},
		{"bench", "--shape", "tiny", "--pp", "4", "--tg", "2", "-r", "1", "--keep"},
		with(cache, "verify", h.pack), with(cache, "verify", h.damaged), with(cache, "verify", h.model), with(cache, "verify", h.model), with(cache, "verify", h.dir), with(cache, "verify", h.no),
		with(cache, "run", "-m", h.model, "--ids", "1,2", "-n", "2", "--session", "s", "--stats"),
		with(cache, "run", "-m", h.hub, "-p", "Hi", "-n", "2", "--session", "h", "--stats"),
		with(cache, "run", "-m", h.damaged, "-f", h.text, "-n", "2"),
		with(cache, "run", "-f", h.no), with(cache, "run", "-m", h.hub, "--lora", h.adapter, "-p", "x"), with(cache, "run", "--lora", h.no, "-p", "x"),
		with(cache, "run", "--session", hostileName, "-p", "x"),
		with(cache, "run", "-p", "x", "--schema", h.text), with(cache, "run", "-p", "x", "--schema", h.no), with(cache, "run", "-p", "x", "--grammar", h.text), with(cache, "run", "-p", "x", "--grammar", h.no),
		with(cache, "run", "--cache-key-file", h.no, "--session", "x", "-p", "x"),
		with(cache, "sessions"), with(cache, "sessions", "show", "s"), with(cache, "sessions", "show", hostileName), with(cache, "sessions", "verify"), with(cache, "sessions", "verify", hostileName), with(cache, "sessions", "rm", hostileName), with(cache, "sessions", "rm", "s"),
		with(cache, "cache"), with(cache, "cache", "verify"), with(cache, "cache", "rm", hostileName), with(cache, "cache", "clean"),
		with(cache, "plan", "-m", h.model), with(cache, "plan", "-m", h.hub, "--ram", "1MiB"), with(cache, "plan", "-m", h.no), with(cache, "plan", "-m", h.model, "--devices", "cpu-a"),
		with(cache, "doctor"),
		{"inspect", "-m", h.model},
		{"inspect", "-m", h.hub},
		{"inspect", "-m", h.pack, "--tensors"},
		{"inspect", "-m", h.text},
		{"inspect", "-m", h.dir},
		{"import", h.hub, "-o", filepath.Join(h.dir, "p"+hostileName+".pack")},
		{"import", h.hub, "-o", h.no},
		{"bundle", "-m", h.model, "-o", filepath.Join(h.dir, "b"+hostileName)},
		{"bundle", "-m", h.model, "-o", filepath.Join(h.dir, "b"+hostileName)},
		{"bundle", "-m", h.damaged, "-o", filepath.Join(h.no, hostileName)},
		{"bundle", "-m", h.model, "-o", h.dir, "--for", h.text},
		{"bundle", "-m", h.model, "-o", h.dir + "x", "--for", h.text},
		{"bundle", "-m", h.no, "-o", h.dir},
		with(cache, "import", h.hub),
		{"synth", "-o", filepath.Join(h.dir, "s"+hostileName+".gguf"), "--shape", "tiny"},
		{"synth", "-o", filepath.Join(h.no, hostileName), "--shape", "tiny"},
		{"calibrate", "-m", h.hub, "-f", h.text, "-o", filepath.Join(h.dir, "c"+hostileName)},
		{"calibrate", "-m", h.hub, "-f", h.no},
		{"logits", "-m", h.hub, "--ids", "1,2"},
		{"logits", "-m", h.no, "--ids", "1"},
		{"logits", "--ids", hostileName},
		{"perplexity", "-m", h.hub, "-f", h.text},
		{"perplexity", "-f", h.no},
		{"perplexity", "--ids-file", h.text},
		{"embed", "-m", h.hub, "-f", h.text},
		{"embed", "-m", h.no, "Hi"},
		{"embed", "-m", h.hub, "-f", h.no},
		{"embed", "-m", h.hub, "--pooling", hostileName, "Hi"},
		{"rank", "-m", h.hub, "-q", hostileName, "-f", h.text},
		{"rank", "-m", h.hub, "-q", "x", "-f", h.no},
		{"tokenize", "-m", h.hub, "--", "Hi"},
		{"tokenize", "-m", h.text, "--", "Hi"},
		{"detokenize", "-m", h.hub, "--ids", "5,6"},
		{"detokenize", "-m", h.no, "--ids", "5"},
		{"render", "-m", h.hub, "--messages", h.messages},
		{"render", "-m", h.no, "--messages", h.messages},
		{"render", "--messages", h.no},
		{"render", "--messages", h.text},
		{"profile", "-m", h.model, "--devices", hostileName},
		{"devices", hostileName},
		{"licenses", hostileName},
		{"version", hostileName},
		{"chat", "-m", h.no},
		with(cache, "chat", "--session", hostileName),
		with(cache, "serve", "--model", hostileName+"="+h.no),
		{"serve", "--model", hostileName},
		{"serve", "--listen", hostileName},
		{"serve", "--lora", "x=" + h.no},
		{"serve", "--lora", hostileName},
		{"serve", "--lora", "x=" + h.text},
		{"serve", "--api-key-file", h.no},
		{"serve", "--allow-origin", hostileName},
		{"serve", "--keep-alive", hostileName},
		{"serve", "--tls-cert", h.no, "--tls-key", h.text},
		{"serve", "--tls-cert", h.text, "--tls-key", h.text},
		{"serve", "--tls-cert", hostileName},
		{"serve", "--tls-key", hostileName},
		with(cache, "summarize", "-m", h.hub, "--part-tokens", "64", "--length", "20", h.text, "--json"),
		with(cache, "summarize", "-m", h.hub, "--part-tokens", "64", "--length", "20", h.text, "-o", filepath.Join(h.dir, "o"+hostileName)),
		with(cache, "summarize", h.no), with(cache, "summarize", h.pack), with(cache, "summarize", h.dir, "-m", h.no), with(cache, "summarize", h.text, h.text, "-o", h.dir), with(cache, "summarize", h.text, "-o", h.text), with(cache, "summarize", "--method", hostileName, h.text), with(cache, "summarize", "--schema", h.no, h.text), with(cache, "summarize", "--schema", h.text, h.text),
		{"pull", hostileName},
		{"pull", "hf:" + hostileName},
		{"pull", "ollama:" + hostileName},
		{"pull", "http://127.0.0.1:1/" + hostileName + ".gguf"},
		{"pull", "hf:a/b", "--name", hostileName},
		{"pull", "http://127.0.0.1:1/x.gguf", "--sha256", hostileName},
		{"completion", hostileName},
		{"config"},
		{"config", "--path"},
		{"config", hostileName},
		{"man", hostileName},
		{"man", "-o", filepath.Join(h.dir, "m"+hostileName)},
		{"man", "-o", h.text},
		{"models"},
		{"models", "--json"},
		{"models", "rm", hostileName},
		{"models", hostileName},
		{"run", "-m", hostileName, "-p", "x"},
		{"plan", "ollama:" + hostileName},
		with(cache, "jobs"), with(cache, "jobs", "show", hostileName), with(cache, "jobs", "cancel", hostileName), with(cache, "jobs", hostileName),
		with(cache, "index", h.dir), with(cache, "index", h.dir, "--json"), with(cache, "index", h.no), with(cache, "index", h.text),
		with(cache, "index", h.dir, "-m", h.hub), with(cache, "index", h.dir), with(cache, "index", h.dir, "-m", h.model), with(cache, "index", h.dir, "-m", h.no), with(cache, "index", h.dir, "--pooling", hostileName), with(cache, "index", h.dir, "--query-prefix", hostileName, "--dimensions", "32", "--reembed"), with(cache, "index", h.dir, "--passage-prefix", hostileName), with(cache, "index", h.dir, "--words"),
		with(cache, "search", h.dir, "fox", "-m", h.no), with(cache, "search", h.dir, "fox", "--rerank", h.hub), with(cache, "search", h.dir, "fox", "--rerank", h.no), with(cache, "run", "-m", h.hub, "--notes", h.dir, "-p", "fox", "-n", "2", "--encoder", h.no), with(cache, "run", "-m", h.hub, "--notes", h.dir, "-p", "fox", "-n", "2", "--rerank", h.no),
		with(cache, "search", h.dir, "fox"), with(cache, "search", h.dir, hostileName), with(cache, "search", h.no, "fox"), with(cache, "search", h.dir, "fox", "--json"),
		with(cache, "run", "-m", h.hub, "--notes", h.dir, "-p", "fox", "-n", "2"), with(cache, "run", "--notes", h.no, "-p", "fox"),
		{"help", hostileName},
		{hostileName},
		{"run", "--" + hostileName},
		{"run", "--kv", hostileName},
		{"run", "--ram", hostileName},
		{"import", h.model, "-o", filepath.Join(h.dir, "o"+hostileName+".pack"), "--replace"}, // the last one: it deletes h.model
	}
}

// TestHostileNamesAreEscaped runs every command with names that hold an escape sequence and a
// character that reverses text. No line shows one of the two, whether the command succeeds or not.
func TestHostileNamesAreEscaped(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the bundled model")
	}
	h := newHostileFiles(t)
	program := filepath.Join(t.TempDir(), "llmrun") // testscript.Main goes by this name
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, program))
	run := func(arguments []string, input string) {
		command := exec.Command(program, arguments...)
		command.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(h.dir, hostileName))
		command.Stdin = strings.NewReader(input)
		out, _ := command.CombinedOutput() // failures are expected
		require.NotContains(t, string(out), "panic")
		for line := range strings.Lines(string(out)) {
			assert.NotContains(t, line, "\x1b", "%q", arguments)
			assert.NotContains(t, line, "\u202e", "%q", arguments)
		}
		t.Logf("%q: %s", arguments, out)
	}
	used := map[string]bool{}
	for _, arguments := range h.commandLines() {
		used[arguments[0]] = true
		run(arguments, "")
	}
	run([]string{"chat", "-m", h.hub, "-n", "2"}, strings.Join([]string{"Hi", "/save " + h.no + ".json", "/load " + h.no + ".json"}, "\n"))
	for _, bad := range []string{"/load " + h.no, "/save " + h.no + "/x", "/" + hostileName} {
		run([]string{"chat", "-m", h.hub}, bad+"\n")
	}
	for _, name := range llmrunProgram().Names() {
		require.True(t, used[name], "%s: no command line", name)
	}
}
