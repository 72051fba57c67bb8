package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestMappedWeightsChangeDuringRun changes and truncates a pack while the command generates from a
// mapping of it. The command ends with the exit code of a damaged file, and names the file.
func TestMappedWeightsChangeDuringRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command and writes a model")
	}
	binary := builtCommand(t)
	source, size := packedModel(t, slowShape(t))
	content, err := os.ReadFile(source)
	require.NoError(t, err)
	for name, change := range map[string]func(t *testing.T, f *os.File){
		"changed":   func(t *testing.T, f *os.File) { flipBytes(t, f, size/4, size/2) },
		"truncated": func(t *testing.T, f *os.File) { require.NoError(t, f.Truncate(size/4)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "used.pack")
			require.NoError(t, os.WriteFile(path, content, 0o600))
			_, log, code := changeDuringRun(t, func() { edit(t, path, func(f *os.File) { change(t, f) }) },
				binary, "run", "-m", path, "--pin", "file", "--ids", "1,2,3", "-n", "32000",
				"--ignore-eos", "--temp", "0", "--ctx", "32768", "--no-kv-cache", "--threads", "2")
			require.Equal(t, exitDamaged, code, "%s", log)
			require.Contains(t, log, path)
		})
	}
}

// TestModelFileChangesDuringRun changes and truncates a GGUF file while the command streams weights from it, without a
// pack. The command ends with the exit code of a damaged file, and names the file and an offset; what it has
// generated until then are the tokens of the sound file.
func TestModelFileChangesDuringRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command and writes a model")
	}
	binary := builtCommand(t)
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, synth.Write(t.Context(), vfs.OS(), path, synth.Options{Shape: slowShape(t), Quant: "q4_0"}))
	sound, err := os.ReadFile(path)
	require.NoError(t, err)
	const context = 4096
	budget := strconv.FormatInt(leastBudget(t, binary, path, context)+1<<20, 10)
	run := func(change func(), n string) (stdout, stderr string, code int) {
		return changeDuringRun(t, change, binary, "run", "-m", path, "--no-import", "--no-kv-cache", "--ram", budget, "--ids", "1,2,3",
			"-n", n, "--ignore-eos", "--temp", "0", "--draft", "off", "--ctx", strconv.Itoa(context), "--threads", "2")
	}
	want, log, code := run(func() {}, "24")
	require.Zero(t, code, log)
	for name, change := range map[string]func(f *os.File){
		"changed":   func(f *os.File) { flipBytes(t, f, int64(len(sound))/4, int64(len(sound))*3/4) },
		"truncated": func(f *os.File) { require.NoError(t, f.Truncate(int64(len(sound))/4)) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, sound, 0o600))
			got, log, code := run(func() { edit(t, path, change) }, "4000")
			require.Equal(t, exitDamaged, code, "%s", log)
			require.Contains(t, log, path+" at offset ")
			got = strings.TrimRight(got, "\n")
			require.Equal(t, want[:min(len(want)-1, len(got))], got[:min(len(want)-1, len(got))])
		})
	}
}

// slowShape is the shape of a model that generates long enough to change its files meanwhile.
func slowShape(t *testing.T) synth.Shape {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Context = 4, 512, 2048, 1<<15
	return shape
}

// changeDuringRun runs a command, calls change after its first output, and returns what it prints
// and its exit code.
func changeDuringRun(t *testing.T, change func(), binary string, args ...string) (stdout, stderr string, code int) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, binary, args...)
	var out, log bytes.Buffer
	run.Stderr = &log
	pipe, err := run.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, run.Start())
	_, err = io.CopyN(&out, pipe, 1)
	require.NoError(t, err, "the command generates no token: %s", &log)
	change()
	_, _ = out.ReadFrom(pipe) // what is generated until it ends
	_ = run.Wait()            // its exit code tells the error
	return out.String(), log.String(), run.ProcessState.ExitCode()
}

// edit changes a file in place.
func edit(t *testing.T, path string, change func(f *os.File)) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	change(f)
	require.NoError(t, f.Close())
}

// flipBytes changes a byte in each 4 KiB of a range of a file.
func flipBytes(t *testing.T, f *os.File, from, to int64) {
	var one [1]byte
	for off := from; off < to; off += 4096 {
		_, err := f.ReadAt(one[:], off)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{one[0] ^ 0x40}, off)
		require.NoError(t, err)
	}
}

// TestCachedPackChangesDuringRun changes or truncates a pack in the cache while the command generates
// from a mapping of it. The command gives the same answer and says that the pack was damaged. If
// the model's own file is damaged too, it ends with the exit code of a damaged file.
func TestCachedPackChangesDuringRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command and writes a model")
	}
	binary := builtCommand(t)
	dir := t.TempDir()
	source, cache := filepath.Join(dir, "m.gguf"), filepath.Join(dir, "cache")
	require.NoError(t, synth.Write(t.Context(), vfs.OS(), source, synth.Options{Shape: slowShape(t), Quant: "q4_0"}))
	sound, err := os.ReadFile(source)
	require.NoError(t, err)
	run := func(t *testing.T, change func()) (stdout, stderr string, code int) {
		return changeDuringRun(t, change, binary, "run", "-m", source, "--cache-dir", cache, "--no-kv-cache", "--pin", "file", "--ids", "1,2,3",
			"-n", "2000", "--ignore-eos", "--temp", "0", "--ctx", "4096", "--threads", "2")
	}
	want, log, code := run(t, func() {})
	require.Zero(t, code, log)
	for _, test := range []struct {
		name   string
		change func(t *testing.T, pack *os.File, size int64)
		code   int
	}{
		{"changed", func(t *testing.T, pack *os.File, size int64) { flipBytes(t, pack, size/4, size/2) }, 0},
		{"truncated", func(t *testing.T, pack *os.File, size int64) { require.NoError(t, pack.Truncate(size/4)) }, 0},
		{"changed as the source is", func(t *testing.T, pack *os.File, size int64) {
			edit(t, source, func(f *os.File) { flipBytes(t, f, int64(len(sound))/4, int64(len(sound))*3/4) })
			flipBytes(t, pack, size/4, size/2)
		}, exitDamaged},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(source, sound, 0o600))
			_, log, code := run(t, func() {}) // imports the model if the last case removed the pack
			require.Zero(t, code, log)
			packs, err := filepath.Glob(filepath.Join(cache, "*.pack"))
			require.NoError(t, err)
			require.Len(t, packs, 1)
			info, err := os.Stat(packs[0])
			require.NoError(t, err)
			got, log, code := run(t, func() {
				edit(t, packs[0], func(f *os.File) { test.change(t, f, info.Size()) })
			})
			require.Equal(t, test.code, code, "%s", log)
			require.Contains(t, log, packs[0])
			require.NoFileExists(t, packs[0])
			if code == 0 {
				require.Equal(t, want, got)
				require.Contains(t, log, "a pack was damaged and has been removed")
			}
		})
	}
}
