package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/tiering"
)

// eatVariable is the number of bytes that TestEatMemory allocates.
const eatVariable = "LLMRUN_TEST_EAT"

// TestEatMemory is not a test but the second program of TestPressureInControlGroup. It allocates
// memory gradually, prints a line, and holds the memory until its input ends.
func TestEatMemory(t *testing.T) {
	most, err := strconv.Atoi(os.Getenv(eatVariable))
	if err != nil {
		t.Skip("runs only as the second process of TestPressureInControlGroup")
	}
	frame, err := tiering.Alloc(tiering.New(0), tiering.Scratch, most)
	require.NoError(t, err)
	defer frame.Free()
	for i := 0; i < most; i += 4096 {
		frame.Bytes()[i] = 1
		if i%(1<<20) == 0 {
			time.Sleep(50 * time.Millisecond)
		}
	}
	_, err = os.Stdout.WriteString("full\n")
	require.NoError(t, err)
	_, err = io.ReadAll(os.Stdin)
	require.NoError(t, err)
}

// TestPressureInControlGroup checks that the command with --pressure releases memory when a second
// program in its control group allocates more memory than the group has left. The kernel must kill no
// process, and the tokens must stay the same.
func TestPressureInControlGroup(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command and writes a model")
	}
	group := newMemoryGroup(t, 1<<40)
	binary := builtCommand(t)
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN, shape.Vocab, shape.Context = 12, 1024, 4096, 4096, 1<<15
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
		return resident(child.Process.Pid)
	}

	before := settled(held)
	require.Greater(t, before, size, "the whole model is in memory")
	const left, more = 32 << 20, 48 << 20
	group.setLimit(t, before+left)
	time.Sleep(time.Second) // the command must show no sign of pressure in this time
	require.Greater(t, held(), before-before/16, "the group has room, so llmrun must not release memory")

	eater := group.command(os.Args[0], "-test.run=^TestEatMemory$")
	eater.Env = append(os.Environ(), eatVariable+"="+strconv.Itoa(left+more))
	input, err := eater.StdinPipe()
	require.NoError(t, err)
	output, err := eater.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, eater.Start())
	full := make([]byte, 5)
	_, err = io.ReadFull(output, full)
	require.NoError(t, err, "the second process has ended; %d killed", group.killed(t))
	after := held()
	t.Logf("llmrun held %d bytes before, %d beside the second process", before, after)
	require.LessOrEqual(t, after, before-more+codeTolerance(before))

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

// settled waits until the held memory grows only by the keys and values of new tokens, and returns
// it.
func settled(held func() int64) int64 {
	last := int64(0)
	for {
		now := held()
		if now > 32<<20 && now-last <= last/16 {
			return now
		}
		last = now
		time.Sleep(2 * time.Second)
	}
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
