package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestTestsReadNoSettings checks that the settings of whoever runs the tests do not reach a command of a test.
func TestTestsReadNoSettings(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, dir)
	}
	config, err := os.UserConfigDir()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(config, "llmrun"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(config, "llmrun", "config.toml"), []byte("wrong"), 0o600))
	report, err := llmrunProgram().ShowSettings()
	require.NoError(t, err)
	for _, s := range report.Settings {
		require.Equal(t, "default", s.From, s.Name)
	}
	t.Setenv("LLMRUN_CONFIG", "")
	_, err = llmrunProgram().ShowSettings()
	require.ErrorContains(t, err, filepath.Join(config, "llmrun", "config.toml")+", line 1: wrong needs a value")
}

// TestVariablesAreNoSettings looks for the variables that code and scripts read by name: none of them is that of a setting,
// whose names are made of the names of flags.
func TestVariablesAreNoSettings(t *testing.T) {
	variable := regexp.MustCompile(`LLMRUN_[A-Z_]+`)
	settings := llmrunProgram().SettingVariables()
	require.Contains(t, settings, "LLMRUN_CACHE_DIR")
	found := map[string]string{}
	root := testutil.Root(t)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "docs"}, entry.Name()):
			return fs.SkipDir
		case entry.Name() == "config_test.go" || entry.Name() == "config.go" || !slices.Contains([]string{".go", ".sh", ".py", ".mjs", ".service"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range variable.FindAllString(string(text), -1) {
			found[name] = path
		}
		return err
	}))
	for _, known := range []string{"LLMRUN_CPU", "LLMRUN_MODELS", "LLMRUN_API_KEY", "LLMRUN_ONNXRUNTIME", "LLMRUN_OPENCL", "LLMRUN_URL"} {
		require.Contains(t, found, known)
	}
	for _, name := range settings {
		require.NotContains(t, found, name)
	}
	require.NotContains(t, settings, "LLMRUN_CONFIG")
}

// TestSettingsMeanTheSameEverywhere checks that the commands that have a setting read it alike: a good value sets it for all
// of them.
func TestSettingsMeanTheSameEverywhere(t *testing.T) {
	values := map[string]string{
		"cache-dir": "/x", "cache-key-file": "/x", "cache-size": "20G", "cache-writes": "20G", "ctx": "8K", "device": "cpu", "draft": "off",
		"keep-alive": "10m", "kv": "k8v8", "kv-ttl": "30d", "listen": "127.0.0.1:0", "model": "x", "no-history": "true", "no-kv-cache": "true",
		"ram": "1GiB", "show-thinking": "true", "temp": "0.5", "think": "off", "threads": "2",
	}
	report, err := llmrunProgram().ShowSettings()
	require.NoError(t, err)
	for _, s := range report.Settings {
		value, known := values[s.Name]
		require.True(t, known, "%s: give it a value here", s.Name)
		t.Setenv(s.Variable, value)
		delete(values, s.Name)
	}
	require.Empty(t, values)
	report, err = llmrunProgram().ShowSettings()
	require.NoError(t, err)
	for _, s := range report.Settings {
		require.Equal(t, "environment", s.From, s.Name)
	}
}

// tomlBlock is an example of a file of settings in a document.
var tomlBlock = regexp.MustCompile("(?s)```toml\n(.*?)```")

// TestExampleSettingsAreRead reads the file of settings that the documentation shows, and that of the help.
func TestExampleSettingsAreRead(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testutil.Root(t), "docs", "guide", "settings.md"))
	require.NoError(t, err)
	example := tomlBlock.FindStringSubmatch(string(page))
	require.NotNil(t, example)
	var lines []string
	for line := range strings.Lines(configCommand().About) {
		if strings.HasPrefix(line, "  ") {
			lines = append(lines, line)
		}
	}
	for _, text := range []string{example[1], strings.Join(lines, "")} {
		file := filepath.Join(t.TempDir(), "config.toml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		t.Setenv("LLMRUN_CONFIG", file)
		report, err := llmrunProgram().ShowSettings()
		require.NoError(t, err)
		set := 0
		for _, s := range report.Settings {
			if s.From == "file" {
				set++
			}
		}
		require.Greater(t, set, 3)
	}
	for _, s := range llmrunProgram().SettingVariables() {
		name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(s, settingPrefix), "_", "-"))
		require.Contains(t, string(page), "`"+name+"`", "docs/guide/settings.md lists the settings")
	}
}

// TestServeOffersTheModelOfTheSettings checks under which name serve offers a model that the settings name.
func TestServeOffersTheModelOfTheSettings(t *testing.T) {
	dir := t.TempDir()
	for file, want := range map[string]string{"qwen2.5-1.5b.gguf": "qwen2.5-1.5b", "notes.pack": "notes", "qwen2.5": "qwen2.5"} {
		path := filepath.Join(dir, file)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		v := &serveFlags{own: path}
		model, err := v.ownModel()
		require.NoError(t, err)
		require.Equal(t, want, model.Name)
		require.Equal(t, path, model.Path)
	}
	model, err := (&serveFlags{}).ownModel()
	require.NoError(t, err)
	require.Equal(t, bundledName, model.Name)
	_, err = (&serveFlags{own: filepath.Join(dir, "none.gguf")}).ownModel()
	require.ErrorContains(t, err, "--model: ")
	t.Setenv("LLMRUN_MODEL", filepath.Join(dir, "none.gguf"))
	err = llmrunProgram().Dispatch(t.Context(), cli.SystemStreams(), []string{"serve", "--no-import"})
	require.ErrorContains(t, err, "--model comes from LLMRUN_MODEL")
}
