package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/cli/clitest"
)

// A usageCase is a command line in usage.txtar and the error that it must give.
type usageCase struct {
	command string
	args    string
	message string // a regular expression
}

// usageCases reads the cases of usage.txtar.
func usageCases(t *testing.T) (cases []usageCase) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("testdata", "script", "usage.txtar"))
	require.NoError(t, err)
	for line := range strings.Lines(string(script)) {
		line = strings.TrimSuffix(line, "\n")
		if args, ok := strings.CutPrefix(line, "status 2 llmrun "); ok {
			command, args, _ := strings.Cut(args, " ")
			cases = append(cases, usageCase{command: command, args: args})
		}
		if message, ok := strings.CutPrefix(line, "stderr "); ok {
			cases[len(cases)-1].message = strings.Trim(message, "'^$")
		}
	}
	require.Greater(t, len(cases), 200)
	return cases
}

// anyText lists the flags that accept any text except the empty one: paths and texts.
var anyText = []string{
	"api-key-file", "bos", "cache-dir", "cache-key-file", "calibrate", "encoder", "eos", "f", "file", "for", "ids-file", "instructions", "language", "lora", "m", "messages", "model", "name", "notes",
	"o", "output", "p", "passage-prefix", "prefix", "prompt", "q", "query", "query-prefix", "rerank", "stop", "system", "template", "calibration", "tensor",
}

// TestUsageErrorsCoverEveryFlag checks that every flag of every command rejects bad values
// while parsing, has a bad value in usage.txtar, or accepts any text.
func TestUsageErrorsCoverEveryFlag(t *testing.T) {
	cases := usageCases(t)
	clitest.CheckFlags(t, llmrunProgram(), anyText, func(command, flag string) bool {
		spelled := regexp.MustCompile(`(^| )--?` + regexp.QuoteMeta(flag) + `($|[ =])`)
		return slices.ContainsFunc(cases, func(c usageCase) bool {
			return c.command == command && spelled.MatchString(c.args)
		})
	})
}

// TestUsageErrorsNameFlags checks that errors of the command line name flags instead of the
// library's fields, and repeat no prefix.
func TestUsageErrorsNameFlags(t *testing.T) {
	flagName := regexp.MustCompile(`(^|[ ,('])--?[a-z]`)
	for _, c := range usageCases(t) {
		require.Empty(t, repeatedPrefix(c.message), "%s %s: %s", c.command, c.args, c.message)
		require.NotContains(t, c.message, llmrun.ErrOptions.Error())
		for option := range maps.Keys(optionFlags) {
			if strings.ToUpper(option[1:]) == option[1:] || strings.ToLower(option[1:]) == option[1:] {
				continue // KV, Device: messages use these words too
			}
			require.NotRegexp(t, `\b`+regexp.QuoteMeta(option)+`\b`, c.message, "%s %s", c.command, c.args)
		}
		if strings.Contains(" "+c.args, " -") && !strings.HasPrefix(c.message, "llmrun: unexpected argument") {
			require.Regexp(t, flagName, c.message, "%s %s", c.command, c.args)
		}
	}
}

// repeatedPrefix returns a word with a colon that occurs twice in a message, ignoring case, as
// in "invalid option: KV: kv: there is no format".
func repeatedPrefix(message string) string {
	seen := map[string]bool{}
	for _, word := range regexp.MustCompile(`[\w-]+: `).FindAllString(message, -1) {
		word = strings.ToLower(strings.Trim(word, "-: "))
		if seen[word] {
			return word
		}
		seen[word] = true
	}
	return ""
}

// TestRepeatedPrefix checks that repeatedPrefix finds repeated prefixes only.
func TestRepeatedPrefix(t *testing.T) {
	require.Equal(t, "kv", repeatedPrefix(`invalid option: KV: kv: there is no format "q2"`))
	require.Equal(t, "kv", repeatedPrefix(`llmrun: --kv: kv: there is no format "q2"`))
	require.Empty(t, repeatedPrefix(`llmrun: --kv: must be f32 or f16, not "q2"`))
}

// TestOptionErrorsNameFlags checks that a library error about an option becomes an error about
// the flag.
func TestOptionErrorsNameFlags(t *testing.T) {
	for want, o := range map[string]llmrun.Options{
		"--kv":            {Memory: llmrun.MemoryOptions{KV: "q2"}},
		"--kv-select":     {Memory: llmrun.MemoryOptions{KVSelect: "most"}},
		"--pin":           {Memory: llmrun.MemoryOptions{Pin: "copy"}},
		"--flash":         {Memory: llmrun.MemoryOptions{Flash: "dma"}},
		"--ram":           {Memory: llmrun.MemoryOptions{RAM: -2}},
		"--kv-ram":        {Memory: llmrun.MemoryOptions{KVRAM: -1}},
		"--threads":       {Threads: -1},
		"--ctx":           {Context: -1},
		"--cache-size":    {Cache: llmrun.CacheOptions{Size: -1}},
		"--device":        {Device: llmrun.DeviceOptions{Name: "tpu"}},
		"--gpu-layers":    {Device: llmrun.DeviceOptions{GPULayers: 3}},
		"--device-share":  {Device: llmrun.DeviceOptions{Quota: 2}},
		"--device-memory": {Device: llmrun.DeviceOptions{Memory: 1}},
		"--trace":         {Lab: llmrun.LabOptions{Trace: "out.json"}},
		"--prune":         {Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{Outliers: 2}}},
		"--w8a8":          {Exact: true, Lab: llmrun.LabOptions{W8A8: &llmrun.W8A8{}}},
	} {
		_, err := llmrun.Open("bundled/model.pack", o)
		require.ErrorIs(t, err, llmrun.ErrOptions)
		var usage *cli.UsageError
		require.ErrorAs(t, explainOptions(err), &usage)
		require.Regexp(t, `(^|\W)`+want+`\b`, usage.Message)
		require.NotContains(t, usage.Message, llmrun.ErrOptions.Error())
	}
	require.NoError(t, explainOptions(nil))
}

// TestLibraryAcceptsChoices checks that the library accepts every value of --kv, --quant and
// --pin.
func TestLibraryAcceptsChoices(t *testing.T) {
	f := cli.NewFlagSet()
	llmrunProgram().Find("run").Prepare(f)
	for _, format := range []string{"f32", "f16", "k8v8", "k8f8", "k4v8"} {
		require.NoError(t, f.Registry.Set("kv", format))
		inspection, err := llmrun.Inspect("bundled/model.pack", llmrun.Options{Memory: llmrun.MemoryOptions{KV: format}})
		require.NoError(t, err)
		require.NoError(t, inspection.Close())
	}
	for _, name := range mixNames() {
		require.NoError(t, f.Registry.Set("quant", name))
	}
	for _, pin := range []string{"anon", "file", "auto"} {
		require.NoError(t, f.Registry.Set("pin", pin))
	}
}
