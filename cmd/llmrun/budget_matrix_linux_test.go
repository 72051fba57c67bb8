package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
)

// budgetSlack is how much more than its budget a process may hold.
const budgetSlack = 1 << 20

// budgetCase is one run of the command.
type budgetCase struct {
	model, prompt string
	budget        int64
	arguments     []string
}

// TestBudgetHoldsForModelsAndPrompts runs the command with every kind of model, several budgets
// and prompts of up to 10 MB, of 112 MB and without end. The kernel's own count of the process
// never exceeds the budget by more than budgetSlack, whether the command answers, finds the
// prompt too long for the context, or refuses. Where control groups can be made, each run is in
// one of the budget and 5 %. LLMRUN_TEST_SWEEP=1 runs all combinations, not a part of them.
func TestBudgetHoldsForModelsAndPrompts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	binary := builtCommand(t)
	group, why := tryMemoryGroup(t, 1<<40)
	if group == nil {
		t.Logf("without control groups: %v", why)
	}
	codes := map[int]int{}
	stride := testutil.Effort(13, 1) // has no factor in common with the numbers of budgets and prompts
	cases := budgetCases(t)
	for i := 0; i < len(cases); i += stride {
		c := &cases[i]
		command := exec.Command(binary, c.arguments...)
		if group != nil {
			group.remove(t)
			require.NoError(t, group.make(c.budget+c.budget/20))
			command = group.command(binary, c.arguments...)
		}
		peak, code := peakOf(t, command)
		codes[code]++
		what := fmt.Sprintf("%s, %d MiB, %s: %.1f MiB, exit code %d", c.model, c.budget>>20, c.prompt, float64(peak)/(1<<20), code)
		t.Log(what)
		require.LessOrEqual(t, peak, c.budget+budgetSlack, what)
		if c.prompt == "endless" || c.prompt == "112 MB" {
			require.Equal(t, exitBudget, code, what)
		}
		if group != nil {
			require.Zero(t, group.killed(t), what)
		}
	}
	require.Greater(t, codes[0], len(cases)/stride/10, "answers")
	require.Greater(t, codes[exitBudget], len(cases)/stride/5, "refusals")
	require.Len(t, codes, 3, "exit codes: %v; 1 is a full context, or a tokenizer that makes a text too long", codes)
}

// budgetCases returns all combinations of models, budgets and prompts, in a fixed order.
func budgetCases(t *testing.T) (cases []budgetCase) {
	names, prompts := promptFiles(t)
	for _, m := range budgetModels(t) {
		for _, budget := range []int64{32 << 20, 45 << 20, 64 << 20, 96 << 20, 150 << 20} {
			for _, name := range names {
				c := budgetCase{m.name, name, budget, []string{"run", "--ram", strconv.FormatInt(budget, 10), "--threads", "2", "-n", "8", "--temp", "0", "-q"}}
				if len(cases)%2 == 0 { // the others import the model first, if they can
					c.arguments = append(c.arguments, "--no-import")
				} else {
					c.arguments = append(c.arguments, "--cache-dir", t.TempDir())
				}
				c.arguments = append(c.arguments, m.arguments...)
				switch {
				case m.ids && name != "short":
					continue
				case m.ids:
					c.arguments = append(c.arguments, "--ids", "1,2,3")
				default:
					c.arguments = append(c.arguments, "-f", prompts[name])
				}
				cases = append(cases, c)
			}
		}
	}
	return cases
}

// promptFiles writes the prompts. names lists them.
func promptFiles(t *testing.T) (names []string, files map[string]string) {
	dir := t.TempDir()
	files = map[string]string{"endless": "/dev/zero"}
	names = []string{"short", "200 KB", "3 MB", "10 MB", "112 MB", "endless"}
	for i, size := range []int{34, 200e3, 3e6, 10e6} {
		files[names[i]] = filepath.Join(dir, names[i])
		text := strings.Repeat("the fox ran into a forest; QzXw%7\n", size/34)
		require.NoError(t, os.WriteFile(files[names[i]], []byte(text), 0o600))
	}
	files["112 MB"] = filepath.Join(dir, "sparse")
	require.NoError(t, os.WriteFile(files["112 MB"], nil, 0o600))
	require.NoError(t, os.Truncate(files["112 MB"], 112e6))
	return names, files
}

// budgetModel is a model of the matrix. ids: it has no tokenizer, or one of a fixture.
type budgetModel struct {
	name      string
	arguments []string
	ids       bool
}

// budgetModels writes the models: dense and with experts, of every format, merged, quantized and
// exact, and one whose tokenizer makes a text a thousand times as long.
func budgetModels(t *testing.T) []budgetModel {
	hub := hubmodel.Dir(testutil.Root(t))
	packed := filepath.Join("bundled", "model.pack")
	dense, experts := shapedModel(t, "tiny"), shapedModel(t, "tiny-moe")
	expertPack := filepath.Join(t.TempDir(), "m.pack")
	_, err := llmrun.Import(t.Context(), experts, expertPack, llmrun.ImportOptions{})
	require.NoError(t, err)
	adapted := testutil.Shared(t, "fixtures", "llama32")
	return []budgetModel{
		{"bundled", nil, false},
		{"gguf", []string{"-m", dense}, true},
		{"gguf, exact", []string{"-m", dense, "--exact"}, true},
		{"experts", []string{"-m", experts}, true},
		{"pack of experts", []string{"-m", expertPack}, true},
		{"safetensors", []string{"-m", hub}, false},
		{"safetensors, quantized", []string{"-m", hub, "--quant", "q4"}, false},
		{"safetensors, merged", []string{"-m", adapted, "--lora", filepath.Join(adapted, "lora_qv")}, true},
		{"safetensors, adapter beside", []string{"-m", adapted, "--lora", filepath.Join(adapted, "lora_all"), "--lora-beside"}, true},
		{"pack", []string{"-m", packed}, false},
		{"pack, exact", []string{"-m", packed, "--exact", "--stats"}, false},
		{"growing tokenizer", []string{"-m", growingModel(t, hub), "--raw"}, false},
	}
}

// growingModel copies a model and makes its tokenizer double each "e" ten times.
func growingModel(t *testing.T, hub string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(hub)))
	path := filepath.Join(dir, "tokenizer.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	double := `{"type":"Replace","pattern":{"String":"e"},"content":"ee"}`
	growing := `"normalizer":{"type":"Sequence","normalizers":[` + double + strings.Repeat(","+double, 9) + `]}`
	changed := regexp.MustCompile(`"normalizer":\s*null`).ReplaceAllLiteral(text, []byte(growing))
	require.NotEqual(t, len(text), len(changed))
	require.NoError(t, os.WriteFile(path, changed, 0o600))
	return dir
}

// peakOf runs a command and returns the last VmHWM of its process and its exit code.
func peakOf(t *testing.T, command *exec.Cmd) (peak int64, code int) {
	t.Helper()
	var stderr bytes.Buffer
	command.Stderr = &stderr
	require.NoError(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for ticks := time.NewTicker(2 * time.Millisecond); ; {
		select {
		case err := <-ended:
			ticks.Stop()
			var exit *exec.ExitError
			if err != nil {
				require.True(t, errors.As(err, &exit), "%v", err)
				require.NotContains(t, stderr.String(), "panic")
			}
			return peak, command.ProcessState.ExitCode()
		case <-ticks.C:
			if now := residentOf(command.Process.Pid).Peak; now > 0 {
				peak = now // it only grows, but before the process runs the program it is that of the test
			}
		}
	}
}
