package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/tiering"
)

// eatVariable is the number of bytes that TestEatMemory allocates.
const eatVariable = "LLMRUN_TEST_EAT"

// eatStep is what TestEatMemory allocates at a time.
const eatStep = 128 << 10

// TestEatMemory is not a test but the second program of TestMeasuredPressureInControlGroup. It allocates
// eatStep bytes for each byte of its input, prints a byte after each, and holds the memory until its input
// ends. A huge page would be many steps at once, so it uses small ones.
func TestEatMemory(t *testing.T) {
	most, err := strconv.Atoi(os.Getenv(eatVariable))
	if err != nil {
		t.Skip("runs only as the second process of TestMeasuredPressureInControlGroup")
	}
	memory, err := unix.Mmap(-1, 0, most, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // kernels without huge pages refuse it
	for at := 0; at < most; at += eatStep {
		_, err := io.ReadFull(os.Stdin, make([]byte, 1))
		require.NoError(t, err)
		for i := at; i < min(most, at+eatStep); i += 4096 {
			memory[i] = 1
		}
		_, err = os.Stdout.WriteString(".")
		require.NoError(t, err)
	}
	_, err = io.ReadAll(os.Stdin)
	require.NoError(t, err)
	require.NoError(t, unix.Munmap(memory))
}

// TestMeasuredPressureInControlGroup checks that the command with --pressure releases memory when a second
// program in its control group allocates more memory than the group has left. The kernel must kill no
// process, and the tokens must stay the same.
//
// The second program allocates a step only while the group has so much room that the command sees no
// pressure. So it takes at most one step of the margin, however late the command sees the pressure, and
// the rest of the margin is for the keys and values of about 18,000 tokens that the command may add first.
func TestMeasuredPressureInControlGroup(t *testing.T) {
	testutil.Measured(t)
	group := newMemoryGroup(t, 1<<40)
	binary := builtCommand(t)
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Context = 3, 1024, 32768, 4096, 1<<15
	shape.KVHeads = 1 // a token has 408 bytes of keys and values
	path, size := packedModel(t, shape)
	args := func(tokens int) []string {
		return []string{
			"run", "-m", path, "--threads", "2", "--ctx", "32768", "--ram", strconv.FormatInt(size+size/2+256<<20, 10), "--ids", "1,2,3",
			"-n", strconv.Itoa(tokens), "--ignore-eos", "--temp", "0", "--json", "-q", "--no-import", "--pressure",
		}
	}
	var stdout, stderr bytes.Buffer
	child := group.command(binary, args(32000)...)
	child.Stdout, child.Stderr = &stdout, &stderr
	stalled := tiering.ReadSigns(tiering.SystemRoot()).Stalled
	require.NoError(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	defer func() { _ = child.Process.Kill() }()
	held := func() int64 {
		select {
		case err := <-ended:
			t.Fatalf("the command has ended: %v, %d killed; %s", err, group.killed(t), &stderr)
		default:
		}
		return residentOf(child.Process.Pid).Now
	}

	// The memory contains the model and grows only by the keys and values of new tokens.
	before := held()
	for last := int64(0); before <= size || before-last > last/16; before = held() {
		last = before
		time.Sleep(time.Second)
	}
	const left, more = 32 << 20, 48 << 20
	limit := before + left
	margin := limit / 32 // tiering.Governor sees pressure in less room
	group.setLimit(t, limit)
	time.Sleep(time.Second) // the command reads the signs of pressure several times
	// Other programs may be the reason, unless all stalls since the start are less than a Governor needs in one of its windows.
	if now := held(); tiering.ReadSigns(tiering.SystemRoot()).Stalled-stalled < 100*time.Millisecond {
		require.Greater(t, now, before-before/16, "the group has room, so llmrun must not release memory")
	}

	eater := group.command(os.Args[0], "-test.run=^TestEatMemory$")
	eater.Env = append(os.Environ(), eatVariable+"="+strconv.Itoa(left+more))
	input, err := eater.StdinPipe()
	require.NoError(t, err)
	output, err := eater.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, eater.Start())
	for range (left + more) / eatStep {
		testutil.Eventually(t, "the command sees no pressure", func() bool { held(); return limit-group.used(t) >= margin })
		_, err := input.Write([]byte{1})
		require.NoError(t, err)
		_, err = io.ReadFull(output, make([]byte, 1))
		require.NoError(t, err, "the second process has ended; %d killed", group.killed(t))
	}
	after := int64(0)
	testutil.Eventually(t, "the command has released what the second process needs", func() bool {
		after = held()
		return after <= before-more+codeTolerance(before)
	})
	t.Logf("llmrun held %d bytes before, %d beside the second process", before, after)

	require.NoError(t, child.Process.Signal(os.Interrupt))
	err = <-ended
	require.NoError(t, input.Close())
	_, _ = io.Copy(io.Discard, output)
	require.NoError(t, eater.Wait())
	require.Zero(t, group.killed(t))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "it was interrupted")
	got := idsOf(t, stdout.Bytes())
	t.Logf("%d tokens", len(got))

	group.setLimit(t, 1<<40)
	out, err := group.command(binary, args(len(got))...).Output()
	require.NoError(t, err)
	require.Equal(t, idsOf(t, out), got)
}

// codeTolerance returns how much of the missing memory the command may keep. This part may be program
// code, which the kernel charges to the group that read it first.
func codeTolerance(bytes int64) int64 { return bytes / 16 }

// used returns the memory of the group without the page cache, which the kernel takes back.
func (g *memoryGroup) used(t *testing.T) int64 {
	total, cache := "memory.usage_in_bytes", "cache "
	if g.v2 {
		total, cache = "memory.current", "file "
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(g.dir, name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	bytes, err := strconv.ParseInt(read(total), 10, 64)
	require.NoError(t, err)
	for line := range strings.Lines(read("memory.stat")) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), cache); ok {
			cached, err := strconv.ParseInt(n, 10, 64)
			require.NoError(t, err)
			return bytes - cached
		}
	}
	t.Fatalf("%s states no page cache", g.dir)
	return 0
}

// setLimit changes the group's limit.
func (g *memoryGroup) setLimit(t *testing.T, limit int64) {
	require.NoError(t, g.write(limit))
}

func idsOf(t *testing.T, output []byte) []int32 {
	var answer struct {
		IDs []int32 `json:"ids"`
	}
	require.NoError(t, json.Unmarshal(output, &answer), "%s", output)
	require.NotEmpty(t, answer.IDs)
	return answer.IDs
}
