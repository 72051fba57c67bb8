package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// memoryGroup is a control group whose processes may hold so much memory.
type memoryGroup struct {
	dir string
	v2  bool
}

// newMemoryGroup makes a group below the one of the test, of version 1 or 2,
// whichever the system has. Where none can be made, which takes root, the test is
// skipped.
func newMemoryGroup(t *testing.T, limit int64) *memoryGroup {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	var why error
	for line := range strings.Lines(string(own)) {
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
				return g
			}
			_ = os.Remove(g.dir)
		}
	}
	t.Skipf("no memory control group can be made here: %v", why)
	return nil
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

// remove deletes the group. The kernel takes a moment to forget processes that
// have ended.
func (g *memoryGroup) remove(t *testing.T) {
	for range 100 {
		if err := syscall.Rmdir(g.dir); err == nil || os.IsNotExist(err) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s cannot be removed", g.dir)
}

// command returns a command that joins the group before it begins. The shell
// becomes the program.
func (g *memoryGroup) command(program string, args ...string) *exec.Cmd {
	script := `echo $$ > "$1/cgroup.procs" && shift && exec "$@"`
	return exec.Command("/bin/sh", append([]string{"-c", script, "sh", g.dir, program}, args...)...)
}

// killed returns how many processes of the group the kernel has killed for memory.
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
	t.Fatalf("%s does not say how many were killed: %s", name, text)
	return 0
}

// resident returns what a process holds of anonymous, file and shared memory, the
// program's code included; 0 once it has ended.
func resident(pid int) (bytes int64) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "RssAnon", "RssFile", "RssShmem":
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			bytes += kb << 10
		}
	}
	return bytes
}
