package llmrun_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/hetero/profiles"
	"github.com/llmrun/llmrun/tiering"
)

// deviceSlack is how much more than its budget a process may hold.
const deviceSlack = 1 << 20

// deviceCode is what such a process reserves for the code of the tests' program, so that all state the same minimum.
const deviceCode = 20 << 20

// devicePrefix begins the work of a child process that runs a model on a device: device:NAME:LAYERS:BYTES.
const devicePrefix = "device:"

// deviceOptions returns the options of such models.
func deviceOptions(dir string) llmrun.Options {
	return llmrun.Options{Threads: 1, Context: 128, Cache: llmrun.CacheOptions{Dir: dir}, Memory: llmrun.MemoryOptions{RAM: llmrun.NoLimit, Chunk: 64}}
}

// runOnDevice is a child process that plans and runs a model on a device. It prints the minimum if the
// budget is refused, and otherwise the peak of the process and of the ledger, and the tokens.
func runOnDevice(t *testing.T, work, model, dir string) {
	require.LessOrEqual(t, tiering.ReadCode(tiering.SystemRoot()).Resident(), int64(deviceCode), "of the tests' program when it opens a model")
	llmrun.ReserveCode(deviceCode)
	name, rest, _ := strings.Cut(strings.TrimPrefix(work, devicePrefix), ":")
	options := deviceOptions(dir)
	options.Device.Name = name
	_, err := fmt.Sscanf(rest, "%d:%d", &options.Device.GPULayers, &options.Memory.RAM)
	require.NoError(t, err)
	e, err := llmrun.Open(model, options)
	var refused *llmrun.MinimumError
	if errors.As(err, &refused) {
		peak := tiering.ReadResident(tiering.SystemRoot()).Peak
		plan, planned := llmrun.PlanMemory(context.Background(), model, options, llmrun.PlanOptions{})
		require.EqualError(t, planned, err.Error())
		require.Equal(t, refused.Minimum, plan.Minimum)
		fmt.Println("minimum", refused.Minimum, peak)
		return
	}
	require.NoError(t, err)
	s := newSession(t, e)
	o := limit(6)
	o.IgnoreEOS = true
	ids := complete(t, s.GenerateIDs(context.Background(), someIDs(e, 100), o)).IDs
	ledger := e.Memory().Ledger
	if options.Memory.RAM > 9*ledger/4 { // the first run
		// What the driver took when it compiled kernels is past. The splits were chosen after the ledger's plan.
		require.NoError(t, e.SetBudget(5*ledger/4))
	}
	require.NoError(t, s.Close())
	require.NoError(t, e.Close())
	fmt.Println("ran", tiering.ReadResident(tiering.SystemRoot()).Peak, ledger, ids)
}

// childOnDevice runs runOnDevice, and returns what it printed.
func childOnDevice(t *testing.T, device string, layers int, ram int64, model, dir string) string {
	out, err := child(fmt.Sprintf("%s%s:%d:%d", devicePrefix, device, layers, ram), model, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "minimum ") || strings.HasPrefix(line, "ran ") {
			return line
		}
	}
	t.Fatalf("no result: %s", out)
	return ""
}

// refusedBudget has no room for a driver, but for the process that refuses it.
const refusedBudget = 32 << 20

// ranOnDevice runs a child with a budget, which it never exceeds, and returns what it did: its tokens, or
// the minimum that it stated.
func ranOnDevice(t *testing.T, device string, layers int, ram int64, model, dir string) (least int64, tokens string) {
	t.Helper()
	line := childOnDevice(t, device, layers, ram, model, dir)
	var peak, ledger int64
	if _, err := fmt.Sscanf(line, "ran %d %d", &peak, &ledger); err == nil {
		t.Logf("%s, %d layers, %.1f MiB: the process held %.1f MiB, the ledger %.1f MiB", device, layers, mebibytes(ram), mebibytes(peak), mebibytes(ledger))
		_, tokens, _ = strings.Cut(line, "[")
		require.NotEmpty(t, tokens, line)
	} else {
		_, err := fmt.Sscanf(line, "minimum %d %d", &least, &peak)
		require.NoError(t, err, line)
		t.Logf("%s, %d layers, %.1f MiB: needs %.1f MiB, the process held %.1f MiB", device, layers, mebibytes(ram), mebibytes(least), mebibytes(peak))
		require.Greater(t, least, ram)
	}
	require.LessOrEqual(t, peak, ram+deviceSlack)
	return least, tokens
}

// requireWithinBudget runs a model on a device in processes with budgets that refusals state, the first one
// with nothing measured: no process exceeds its budget, also no refused one. A process that opens the
// driver measures it again, so it may state a little more; what is stated settles after a few processes, and
// is then the least budget that suffices. The tokens are the same.
func requireWithinBudget(t *testing.T, device string, layers int, model, dir string) {
	t.Helper()
	if tiering.ReadResident(tiering.SystemRoot()).Peak == 0 {
		t.Skip("the system does not tell the peak of a process")
	}
	answer := ""
	run := func(ram int64) (least int64) {
		least, tokens := ranOnDevice(t, device, layers, ram, model, dir)
		if answer == "" {
			answer = tokens
		}
		require.True(t, tokens == "" || tokens == answer, tokens)
		return least
	}
	const tries = 6 // nothing is measured, kernels are not compiled, kernels are compiled; then little changes
	for range tries {
		least := run(refusedBudget)
		require.Positive(t, least)
		if run(least) == 0 && run(least-1) == least && run(2*least) == 0 {
			return
		}
	}
	t.Errorf("no minimum has settled after %d tries", tries)
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// deviceModel writes a model of about 30 MB.
func deviceModel(t *testing.T) string {
	shape := layered(t, "tiny")
	shape.Dim, shape.FFN, shape.Vocab, shape.Tied = 512, 2048, 8192, false
	return writeShape(t, shape, "q4_0")
}

// TestGPUMemoryStaysInBudget runs models whose last layers, or all, are on a GPU. The driver's compiler
// has no kernels from earlier runs for the first of them, if the driver is PoCL.
func TestGPUMemoryStaysInBudget(t *testing.T) {
	path := deviceModel(t)
	onGPU(t, path, 2) // before the variable is set, so that it compiles no kernels for the children
	t.Setenv("POCL_CACHE_DIR", t.TempDir())
	dir := t.TempDir()
	for _, layers := range []int{2, 1 << 20} {
		requireWithinBudget(t, "gpu", layers, path, dir)
	}
}

// TestFirstSplitStaysInBudget runs splits of which nothing has been measured in the budget that a refusal
// states: with what the refused process has measured, if it could, and in a process that measures itself,
// whose other rates may lead to another split with another minimum. All hold at most the budget.
func TestFirstSplitStaysInBudget(t *testing.T) {
	if tiering.ReadResident(tiering.SystemRoot()).Peak == 0 {
		t.Skip("the system does not tell the peak of a process")
	}
	path := deviceModel(t)
	for _, name := range splitDevices(t, path, deviceOptions(t.TempDir())) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("POCL_CACHE_DIR", t.TempDir()) // which has no compiled kernels
			least, _ := ranOnDevice(t, name, 0, refusedBudget, path, dir)
			require.Positive(t, least)
			stored, report := profiles.Load(dir)
			require.Empty(t, report)
			measured := len(stored.Devices) > 0 // a driver is not opened in such a budget
			_, tokens := ranOnDevice(t, name, 0, least, path, dir)
			require.NotEmpty(t, tokens)
			if !measured {
				return // that process has measured itself
			}
			t.Setenv("POCL_CACHE_DIR", t.TempDir())
			dir = t.TempDir()
			other, tokens := ranOnDevice(t, name, 0, least, path, dir)
			if other > 0 {
				_, tokens = ranOnDevice(t, name, 0, other, path, dir)
			}
			require.NotEmpty(t, tokens)
		})
	}
}

// TestSplitMemoryStaysInBudget runs models whose matmuls are split between the CPU and a device.
func TestSplitMemoryStaysInBudget(t *testing.T) {
	path, dir := deviceModel(t), t.TempDir()
	options := deviceOptions(dir)
	for _, name := range splitDevices(t, path, options) {
		pretendGain(t, dir)
		options.Device.Name = name
		require.NoError(t, open(t, path, options).Close()) // the trial of the new splits
		pretendGain(t, dir)
		requireWithinBudget(t, name, 0, path, dir)
	}
}
