package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/internal/testutil/hubserver"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

func TestMain(m *testing.M) {
	testscript.Main(withoutShared{m}, map[string]func(){"llmrun": main})
}

// sharedDir returns a directory for files that several tests of this process use.
var sharedDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "llmrun-test-*")
	removeShared = func() { _ = os.RemoveAll(dir) }
	return dir, err
})

// removeShared removes the directory, if a test has used one.
var removeShared = func() {}

// withoutShared runs the tests and leaves no shared directory.
type withoutShared struct{ m *testing.M }

func (w withoutShared) Run() int {
	defer func() { removeShared() }()
	withoutSettings()
	return w.m.Run()
}

// withoutSettings hides the settings of whoever runs the tests. Scripts begin with an empty environment in any case.
func withoutSettings() {
	for _, name := range llmrunProgram().SettingVariables() {
		_ = os.Unsetenv(name) // it fails for an empty name only
	}
	_ = os.Setenv(settingPrefix+"CONFIG", os.DevNull)
}

// TestScripts checks the output streams and exit codes of the command lines in testdata/script, with
// the bundled model. $NOTES is a directory of notes with their expected summaries, $IDS is a long
// prompt of token ids (see longIDs), and $MODEL is the bundled model as a Hugging Face directory.
func TestScripts(t *testing.T) { runScripts(t, "script") }

// TestMeasuredScripts is TestScripts for testdata/measured, whose commands measure this machine.
func TestMeasuredScripts(t *testing.T) {
	testutil.Measured(t)
	runScripts(t, "measured")
}

func runScripts(t *testing.T, dir string) {
	t.Helper()
	notes, err := filepath.Abs(filepath.Join("testdata", "notes"))
	if err != nil {
		t.Fatal(err)
	}
	model := hubmodel.Dir(testutil.Root(t))
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", dir),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NOTES", notes)
			env.Setenv("MODEL", model)
			env.Setenv("IDS", longIDs())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":    testutil.ScriptStatus,
			"interrupt": scriptInterrupt,
			"unwritten": scriptUnwritten,
			"chomp":     scriptChomp,
			"damage":    scriptDamage,
			"settle":    scriptSettle,
			"holds":     scriptHolds,
			"minimum":   scriptMinimum,
			"adapter":   scriptAdapter,
			"encoder":   scriptEncoder,
			"speeds":    scriptSpeeds,
			"hubserver": scriptHubServer,
		},
	})
}

// scriptHubServer implements "hubserver OWNER/REPO FILE...", which starts a server with a repository of these files. It
// sets HF_ENDPOINT to its address, and OLLAMA to that of a registry with the first of the files as library/fox.
func scriptHubServer(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: hubserver OWNER/REPO FILE...")
	}
	server := hubserver.Start()
	ts.Defer(server.Close)
	files := map[string][]byte{}
	for _, name := range args[1:] {
		files[filepath.Base(name)] = []byte(ts.ReadFile(name))
	}
	server.AddRepo(args[0], files)
	server.AddOllama("library/fox", "1b", files[filepath.Base(args[1])])
	server.Files["/page.gguf"] = []byte("<html>")
	ts.Setenv("HF_ENDPOINT", server.URL)
	ts.Setenv("OLLAMA", server.URL+"/library/fox")
}

// scriptSpeeds implements "speeds FILE", which replaces measured speeds by stated ones, so that what llmrun decides
// with them does not depend on this machine.
func scriptSpeeds(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: speeds FILE")
	}
	var all map[string]llmrun.Rates
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &all))
	for name, r := range all {
		if r.AttendGBs > 0 {
			r.AttendGBs, r.AttendChunkGBs = 10, 30
		} else {
			r.DecodeGBs, r.PrefillGops = 20, 80
			if !strings.Contains(name, "simulated disk") {
				r.FlashGBs = 1
			}
		}
		r.Lost = 0
		all[name] = r
	}
	text, err := json.Marshal(all)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

// scriptAdapter implements "adapter DIR", which writes an adapter for the bundled model.
func scriptAdapter(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(hubmodel.WriteAdapter(ts.MkAbs(args[0]), 4))
}

// scriptEncoder implements "encoder DIR SEED [score]", which writes an embedding model, or a reranker.
func scriptEncoder(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: encoder DIR SEED [score]")
	}
	seed, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	e := hubmodel.Encoder{Seed: seed, Words: strings.Fields("the fox is called ruby she lives near lake cat henry sleeps day jacket pink where"), Scores: len(args) > 2}
	ts.Check(e.Write(ts.MkAbs(args[0])))
}

// scriptSettle implements "settle FILE", which waits until a file that was just written may have its hash remembered.
// The times of a second file tell how late it is.
func scriptSettle(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: settle FILE")
	}
	stampOf := func(path string) vfs.Stamp {
		file, err := vfs.OS().Open(path)
		ts.Check(err)
		stamp, known, err := vfs.StampOf(file)
		ts.Check(err)
		ts.Check(file.Close())
		if !known {
			ts.Fatalf("%s has no stamp", path)
		}
		return stamp
	}
	path := ts.MkAbs(args[0])
	probe := path + ".probe"
	if !testutil.HoldsWithin(time.Minute, func() bool {
		ts.Check(os.WriteFile(probe, []byte("x"), 0o600))
		return stampOf(path).Settled(time.Unix(0, stampOf(probe).Changed))
	}) {
		ts.Fatalf("%s: another change may still get the same times", path)
	}
	ts.Check(os.Remove(probe))
}

// scriptMinimum implements "minimum VARIABLE BYTES ARGUMENTS", which sets an environment variable to
// the smallest --ram that llmrun plan accepts with the arguments, and some bytes more.
func scriptMinimum(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: minimum VARIABLE BYTES ARGUMENTS")
	}
	more, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	_ = ts.Exec("llmrun", append([]string{"plan", "--ram", "1MiB", "--json"}, args[2:]...)...) // refused
	var refused struct {
		Minimum int64 `json:"minimum_bytes"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &refused))
	ts.Setenv(args[0], strconv.FormatInt(refused.Minimum+more, 10))
}

// scriptDamage implements "damage FILE OFFSET [keeptime]", which changes a byte of the file, and
// with keeptime restores the time of modification.
func scriptDamage(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: damage FILE OFFSET [keeptime]")
	}
	matches, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(matches) != 1 {
		ts.Fatalf("%s matches %d files", args[0], len(matches))
	}
	data, err := os.ReadFile(matches[0])
	ts.Check(err)
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	if at < 0 { // from the end
		at += len(data)
	}
	data[at] ^= 1
	info, err := os.Stat(matches[0])
	ts.Check(err)
	ts.Check(os.WriteFile(matches[0], data, 0o600))
	if len(args) == 3 {
		ts.Check(os.Chtimes(matches[0], time.Time{}, info.ModTime()))
	}
}

// endings maps the names of signals in scripts to signals and exit codes.
var endings = map[string]struct {
	signal os.Signal
	code   int
}{"INT": {os.Interrupt, 130}, "TERM": {syscall.SIGTERM, 143}}

// scriptInterrupt implements "interrupt SIGNAL FILE ARGS...". It starts llmrun, sends the
// signal after the answer has begun, checks the exit code for the signal and writes the
// output to FILE.
func scriptInterrupt(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: interrupt SIGNAL FILE ARGS...")
	}
	program, err := exec.LookPath("llmrun")
	ts.Check(err)
	command := exec.Command(program, args[2:]...)
	command.Dir = ts.MkAbs(".")
	output, err := command.StdoutPipe()
	ts.Check(err)
	ts.Check(command.Start())
	first := make([]byte, 64)
	n, err := output.Read(first)
	ts.Check(err)
	ts.Check(command.Process.Signal(endings[args[0]].signal))
	text := first[:n]
	for err == nil {
		var more int
		buffer := make([]byte, 4096)
		more, err = output.Read(buffer)
		text = append(text, buffer[:more]...)
	}
	testutil.CheckExit(ts, command.Wait(), endings[args[0]].code)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o600))
}

// scriptUnwritten implements "unwritten SIGNAL ARGS...". It starts llmrun, sends the signal
// when a temporary file exists, and checks that llmrun ends with the exit code for the signal
// and leaves no file.
func scriptUnwritten(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: unwritten SIGNAL ARGS...")
	}
	program, err := exec.LookPath("llmrun")
	ts.Check(err)
	command := exec.Command(program, args[1:]...)
	command.Dir = ts.MkAbs(".")
	ts.Check(command.Start())
	temporary := func() []string {
		list, err := filepath.Glob(ts.MkAbs("*" + vfs.TempMark + "*"))
		ts.Check(err)
		return list
	}
	if !testutil.HoldsWithin(time.Minute, func() bool { return len(temporary()) > 0 }) {
		_ = command.Process.Kill()
		ts.Fatalf("llmrun created no temporary file")
	}
	ts.Check(command.Process.Signal(endings[args[0]].signal))
	testutil.CheckExit(ts, command.Wait(), endings[args[0]].code)
	if left := temporary(); len(left) > 0 {
		ts.Fatalf("llmrun left files: %q", left)
	}
}

// scriptChomp implements "chomp FILE", which removes the line break at the end of the file. Every
// file of a script ends with a line break.
func scriptChomp(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: chomp FILE")
	}
	text := strings.TrimSuffix(ts.ReadFile(args[0]), "\n")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// shapedModel writes a GGUF file of random weights and returns its path.
func shapedModel(t *testing.T, name string) string {
	shape, ok := synth.FindShape(name)
	require.True(t, ok)
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, synth.Write(context.Background(), vfs.OS(), path, synth.Options{Shape: shape, Quant: "q4_0"}))
	return path
}
