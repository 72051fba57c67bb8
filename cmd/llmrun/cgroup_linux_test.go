package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/tiering"
)

// memoryGroup is a control group with a memory limit.
type memoryGroup struct {
	dir string
	v2  bool
}

// newMemoryGroup creates a group of version 1 or 2 below the group of the test. It skips the test if
// the process may not create groups, which needs root.
func newMemoryGroup(t *testing.T, limit int64) *memoryGroup {
	t.Helper()
	g, why := tryMemoryGroup(t, limit)
	if g == nil {
		t.Skipf("no memory control group can be made here: %v", why)
	}
	return g
}

// tryMemoryGroup is newMemoryGroup, but returns the reason why there is no group.
func tryMemoryGroup(t *testing.T, limit int64) (_ *memoryGroup, why error) {
	t.Helper()
	for line := range strings.Lines(testutil.ControlGroups(t)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		g := &memoryGroup{v2: fields[0] == "0"}
		mount := "/sys/fs/cgroup/memory"
		if g.v2 {
			mount = "/sys/fs/cgroup"
		} else if fields[1] != "memory" {
			continue
		}
		for _, at := range []string{fields[2], "/"} { // a container may see its group at the root
			g.dir = filepath.Join(mount, at, "llmrun-test-"+strconv.Itoa(os.Getpid()))
			if why = g.make(limit); why == nil {
				t.Cleanup(func() { g.remove(t) })
				return g, nil
			}
			_ = os.Remove(g.dir)
		}
	}
	return nil, why
}

func (g *memoryGroup) make(limit int64) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	return g.write(limit)
}

// write sets the limit.
func (g *memoryGroup) write(limit int64) error {
	files := map[string]string{"memory.limit_in_bytes": strconv.FormatInt(limit, 10), "memory.swappiness": "0"}
	if g.v2 {
		files = map[string]string{"memory.max": strconv.FormatInt(limit, 10)}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the group. It retries, because ended processes stay in the group for a moment.
func (g *memoryGroup) remove(t *testing.T) {
	testutil.Eventually(t, g.dir+" can be removed", func() bool {
		err := syscall.Rmdir(g.dir)
		return err == nil || os.IsNotExist(err)
	})
}

// command returns a command that joins the group first: a shell joins and then executes the program.
func (g *memoryGroup) command(program string, args ...string) *exec.Cmd {
	script := `echo $$ > "$1/cgroup.procs" && shift && exec "$@"`
	return exec.Command("/bin/sh", append([]string{"-c", script, "sh", g.dir, program}, args...)...)
}

// killed returns the number of processes of the group that the kernel killed for memory.
func (g *memoryGroup) killed(t *testing.T) int {
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			count, err := strconv.Atoi(strings.TrimSpace(n))
			require.NoError(t, err)
			return count
		}
	}
	t.Fatalf("%s has no count of killed processes: %s", name, text)
	return 0
}

// residentOf returns the memory of a process, including its code, and the most that it has held so far, as the kernel
// counted it without gaps; zeros after the process has ended.
func residentOf(pid int) tiering.Resident {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return tiering.Resident{}
	}
	return tiering.ReadResident(fstest.MapFS{"proc/self/status": {Data: text}})
}
