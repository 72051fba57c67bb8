package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A settingsTrial runs a program with two commands, whose settings are in a file and in an environment of the test's own.
type settingsTrial struct {
	t           *testing.T
	file        string
	required    bool
	environment map[string]string
	noPlace     bool // the system has no directory for the file

	got   settingsFlags
	fails error
}

// settingsFlags are the flags of a command.
type settingsFlags struct {
	threads       int
	model         string
	quiet, preset bool
}

func (s *settingsTrial) program() *Program {
	threads := func(f *FlagSet, flags *settingsFlags) Action {
		f.Group("Flags")
		f.Count(&flags.threads, "t threads", "N", "number of threads; default: one for each core. More text", 1, 64)
		f.Setting("threads")
		return func(context.Context, *Streams, []string) error {
			s.got = *flags
			return s.fails
		}
	}
	return &Program{
		Name: "prog",
		Settings: &Settings{
			Prefix: "PROG_", Command: "config",
			Lookup: func(name string) string { return s.environment[name] },
			File: func() (string, bool, error) {
				if s.noPlace {
					return "", false, errors.New("no home")
				}
				return s.file, s.required, nil
			},
		},
		Groups: []CommandGroup{{Commands: []*Command{
			{Name: "do", Prepare: func(f *FlagSet) Action {
				flags := &settingsFlags{}
				act := threads(f, flags)
				f.Text(&flags.model, "m model", "PATH", "the model")
				f.Setting("model").Unless("shape").Reports(&flags.preset).Named("the big thing")
				f.Toggle(&flags.quiet, "quiet", "print less")
				f.Setting("quiet")
				f.Text(new(string), "shape", "NAME", "in place of a model")
				f.Text(new(string), "key-dir", "DIR", "a directory")
				f.Setting("key-dir")
				f.OptionalNumber(new(*float32), "temp", "the temperature", 0, 10)
				f.Setting("temp")
				return act
			}},
			{Name: "serve", Prepare: func(f *FlagSet) Action { return threads(f, &settingsFlags{}) }},
			{Name: "plain", Prepare: func(*FlagSet) Action {
				return func(context.Context, *Streams, []string) error { return nil }
			}},
		}}},
	}
}

// run runs a command line with a file, and returns what it prints.
func (s *settingsTrial) run(text string, args ...string) (string, int) {
	s.t.Helper()
	if text != "" {
		s.file = filepath.Join(s.t.TempDir(), "config.toml")
		require.NoError(s.t, os.WriteFile(s.file, []byte(text), 0o600))
	}
	s.got = settingsFlags{}
	var errs bytes.Buffer
	code := s.program().Execute(s.t.Context(), &Streams{Out: &output{w: &bytes.Buffer{}}, Err: &errs}, args)
	return strings.ReplaceAll(errs.String(), s.file, "FILE"), code
}

// TestSettingsPrecede checks that a flag precedes the environment, that the command's table in the file, and that its beginning.
func TestSettingsPrecede(t *testing.T) {
	s := &settingsTrial{t: t, environment: map[string]string{}}
	const file = "threads = 1\nmodel = \"a\"\nquiet = true\n[serve]\nthreads = 2\n"
	for _, c := range []struct {
		args      string
		variables map[string]string
		threads   int
		model     string
		quiet     bool
	}{
		{"do", nil, 1, "a", true},
		{"serve", nil, 2, "", false},
		{"do", map[string]string{"PROG_THREADS": "3", "PROG_MODEL": "b", "PROG_QUIET": "0"}, 3, "b", false},
		{"serve", map[string]string{"PROG_THREADS": "3"}, 3, "", false},
		{"do", map[string]string{"PROG_THREADS": "", "OTHER_THREADS": "9", "PROG_OTHER": "x"}, 1, "a", true},
		{"do --threads 4 -m c --quiet=false", map[string]string{"PROG_THREADS": "3", "PROG_MODEL": "b"}, 4, "c", false},
		{"do -t 4", map[string]string{"PROG_THREADS": "3"}, 4, "a", true},
		{"serve -t4", nil, 4, "", false},
		{"do --shape x", nil, 1, "", true},
	} {
		s.environment = c.variables
		message, code := s.run(file, strings.Fields(c.args)...)
		require.Equal(t, ExitOK, code, message)
		require.Equal(t, c.threads, s.got.threads, c)
		require.Equal(t, c.model, s.got.model, c)
		require.Equal(t, c.quiet, s.got.quiet, c)
		require.Equal(t, c.model != "" && c.model != "c", s.got.preset, c)
	}
}

// TestWrongSettings checks that every error names the file and line, or the variable, and what to do.
func TestWrongSettings(t *testing.T) {
	s := &settingsTrial{t: t}
	for text, want := range map[string]string{
		"\nthraeds = 4":              `FILE, line 2: there is no setting "thraeds"; did you mean "threads"?`,
		"key_dir = '/x'":             `FILE, line 1: there is no setting "key_dir"; did you mean "key-dir"?`,
		"m = 'x'":                    `FILE, line 1: there is no setting "m"; here it is model`,
		"num-threads = 4":            `FILE, line 1: there is no setting "num-threads"; here it is threads`,
		"shape = 'x'":                `FILE, line 1: there is no setting "shape": it is a flag for the command line alone`,
		"frobnicate = 1":             `FILE, line 1: there is no setting "frobnicate"; prog config lists them`,
		"threads = 4\nthreads = 5":   `FILE, line 2: threads is already set in line 1: remove one of the two`,
		"threads = four":             `FILE, line 1: threads: four is no value: text stands in quotes`,
		"threads = 0":                `FILE, line 1: threads: must be a whole number from 1 to 64, not "0"`,
		"threads = 1.5":              `FILE, line 1: threads: must be a whole number from 1 to 64, not "1.5"`,
		"threads = true":             `FILE, line 1: threads: must be a whole number from 1 to 64, not "true"`,
		"model = 5":                  `FILE, line 1: model: must be text in quotes, as in model = "5"`,
		"model = true":               `FILE, line 1: model: must be text in quotes`,
		"model = ''":                 `FILE, line 1: model: must not be empty`,
		"quiet = 1":                  `FILE, line 1: quiet: must be true or false without quotes, not "1"`,
		"quiet = 'true'":             `FILE, line 1: quiet: must be true or false without quotes, not "true"`,
		"temp = true":                `FILE, line 1: temp: must be a number from 0 to 10, not "true"`,
		"key-dir = 'x'":              `FILE, line 1: key-dir: must be an absolute path or begin with ~/, not "x"`,
		"[srve]\nthreads = 1":        `FILE, line 2: [srve] names no command; did you mean [serve]?`,
		"[serve]\n\nmodel = 'x'":     `FILE, line 3: model is no setting of serve, which has threads`,
		"[plain]\nthreads = 1":       `FILE, line 2: [plain] is a command without settings: remove threads`,
		"[do]\nmodle = 'x'":          `FILE, line 2: there is no setting "modle"; did you mean "model"?`,
		"[serve]\nquiet = 1\n[do]\n": `FILE, line 2: quiet is no setting of serve`,
	} {
		for _, command := range []string{"do", "serve"} { // also what is about other commands
			message, code := s.run(text, command)
			require.Equal(t, ExitUsage, code, text)
			require.Contains(t, message, "prog: "+want, text)
			require.Contains(t, message, "\nRun 'prog help config' for its flags and examples.\n")
		}
		message, code := s.run(text, "plain")
		require.Equal(t, ExitOK, code, message)
	}
	s.environment = map[string]string{"PROG_THREADS": "many"}
	message, code := s.run("threads = 3", "do")
	require.Equal(t, ExitUsage, code)
	require.Contains(t, message, `prog: PROG_THREADS: must be a whole number from 1 to 64, not "many"`)
	message, code = s.run("", "do", "-t", "2")
	require.Equal(t, ExitOK, code, message)
	s.environment = map[string]string{"PROG_QUIET": "perhaps"}
	message, _ = s.run("", "do")
	require.Contains(t, message, `prog: PROG_QUIET: must be true or false, not "perhaps"`)
}

// TestSettingsFileIsRead checks files that are not there, cannot be read, or are too large, and paths in the home directory.
func TestSettingsFileIsRead(t *testing.T) {
	s := &settingsTrial{t: t, file: filepath.Join(t.TempDir(), "none")}
	message, code := s.run("", "do")
	require.Equal(t, ExitOK, code, message)
	s.required = true
	message, code = s.run("", "do")
	require.Equal(t, ExitFailure, code)
	require.Contains(t, message, "FILE: no such file or directory; mend it, or name another file with PROG_CONFIG")
	s.file = t.TempDir()
	message, _ = s.run("", "do")
	require.Contains(t, message, "is a directory; mend it")
	message, _ = s.run(strings.Repeat("#", maxSettings+1), "do")
	require.Contains(t, message, "FILE has more than 64.0 KiB; mend it")
	s.noPlace = true
	message, code = s.run("threads = wrong", "do")
	require.Equal(t, ExitOK, code, message)
	s.noPlace = false

	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for text, want := range map[string]string{"~/models/a": filepath.Join(home, "models", "a"), "models/~/a": "models/~/a", "~name": "~name"} {
		message, code = s.run("model = '"+text+"'", "do")
		require.Equal(t, ExitOK, code, message)
		require.Equal(t, want, s.got.model)
	}
}

// TestErrorsNameSettings checks that an error about a flag that the command line does not have says where it comes from.
func TestErrorsNameSettings(t *testing.T) {
	s := &settingsTrial{t: t, environment: map[string]string{"PROG_THREADS": "3"}}
	for text, want := range map[string]string{
		"--threads and --key-dir exclude each other": "; -t comes from PROG_THREADS",
		"-m: no such model":                          "; -m comes from FILE, line 1",
		"-t of --model":                              "; -t comes from PROG_THREADS, -m comes from FILE, line 1",
		"the big thing is too big":                   "; -m comes from FILE, line 1",
		"--threads-max and -max are wrong":           "",
	} {
		s.fails = errors.New(text)
		message, code := s.run("model = 'x'", "do")
		require.Equal(t, ExitFailure, code)
		require.Equal(t, "prog: "+text+want+"\n", message)
		s.fails = Usagef("%s", text)
		message, code = s.run("model = 'x'", "do")
		require.Equal(t, ExitUsage, code)
		require.Contains(t, message, "prog: "+text+want+"\n")
		s.fails = Usagef("%s", text)
		message, _ = s.run("model = 'x'", "do", "-t", "1", "-m", "y")
		require.Contains(t, message, "prog: "+text+"\n")
	}
}

// TestSettingsReport checks what is shown of each setting.
func TestSettingsReport(t *testing.T) {
	s := &settingsTrial{t: t, environment: map[string]string{"PROG_MODEL": "a\x1b[31m"}}
	_, code := s.run("threads = 0x10\n[serve]\nthreads = '2'\n", "plain")
	require.Equal(t, ExitOK, code)
	report, err := s.program().ShowSettings()
	require.NoError(t, err)
	require.True(t, report.Exists)
	var text strings.Builder
	report.Write(&text, 0)
	require.Equal(t, `file: FILE

setting         value   from
threads         16      FILE, line 1
serve: threads  2       FILE, line 3
model           a␛[31m  PROG_MODEL
quiet           false   default
key-dir         –       default
temp            –       default
`, strings.ReplaceAll(text.String(), s.file, "FILE"))
	text.Reset()
	report.File, report.Settings[0].Where = "f", "a file with a long name, line 1"
	report.Write(&text, 24)
	require.Contains(t, text.String(), "f\n\nthreads\n    16 (a file with a\n    long name, line 1)\n")
	require.Contains(t, text.String(), "\nquiet\n    false (default)\n")
	require.Equal(t, ShownSetting{Name: "quiet", From: "default", Default: "false", Variable: "PROG_QUIET", Commands: []string{"do"}}, report.Settings[3])
	require.Equal(t, "one for each core", report.Settings[0].Default)
	require.Equal(t, "environment", report.Settings[2].From)
	require.Equal(t, []string{"PROG_THREADS", "PROG_MODEL", "PROG_QUIET", "PROG_KEY_DIR", "PROG_TEMP"}, s.program().SettingVariables())

	s.environment = map[string]string{"PROG_TEMP": "hot"}
	_, err = s.program().ShowSettings()
	require.EqualError(t, err, `PROG_TEMP: must be a number from 0 to 10, not "hot"`)

	page, err := s.program().ManualPage("")
	require.NoError(t, err)
	require.Contains(t, page, ".SH \"SETTINGS\"\n")
	require.Contains(t, page, `\fBkey\-dir\fR, \fBPROG_KEY_DIR\fR`)
}
