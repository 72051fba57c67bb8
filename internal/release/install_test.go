package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// installer runs scripts/install.sh for a user with an empty home directory.
type installer struct {
	t                *testing.T
	shell            []string
	script           string
	home, files, url string
}

// newInstaller publishes a release whose program is a script.
func newInstaller(t *testing.T, shell ...string) *installer {
	t.Helper()
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the script is for Linux, Android and macOS")
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("there is no llmrun for this processor")
	}
	if _, err := exec.LookPath(shell[0]); err != nil {
		t.Skip(err)
	}
	script, err := filepath.Abs(filepath.Join("..", "..", "scripts", "install.sh"))
	require.NoError(t, err)
	i := &installer{t: t, shell: shell, script: script, home: t.TempDir(), files: t.TempDir()}
	i.url = "file://" + i.files
	i.publish("#!/bin/sh\necho llmrun v1\n")
	return i
}

func (i *installer) archive() string {
	return fmt.Sprintf("llmrun-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH)
}

// publish writes the archive and its sum.
func (i *installer) publish(program string) {
	i.t.Helper()
	data, err := tarOf("", []file{{strings.TrimSuffix(i.archive(), ".tar.gz") + "/llmrun", 0o755, []byte(program)}}, time.Unix(1700000000, 0), 6)
	require.NoError(i.t, err)
	sum := sha256.Sum256(data)
	i.write(i.archive(), string(data))
	i.write("SHA256SUMS", hex.EncodeToString(sum[:])+"  "+i.archive()+"\n")
}

func (i *installer) write(name, text string) {
	require.NoError(i.t, os.WriteFile(filepath.Join(i.files, name), []byte(text), 0o600))
}

func (i *installer) read(name string) string {
	data, err := os.ReadFile(filepath.Join(i.files, name))
	require.NoError(i.t, err)
	return string(data)
}

// run returns the output of the script, and the program that is installed afterwards.
func (i *installer) run(env ...string) (output, installed string, err error) {
	command := exec.Command(i.shell[0], append(i.shell[1:], i.script)...)
	command.Env = append([]string{"HOME=" + i.home, "PATH=" + os.Getenv("PATH"), "LLMRUN_URL=" + i.url}, env...)
	out, err := command.CombinedOutput()
	bin := filepath.Join(i.home, ".local", "bin")
	data, _ := os.ReadFile(filepath.Join(bin, "llmrun"))
	entries, _ := os.ReadDir(bin)
	for _, e := range entries {
		require.Equal(i.t, "llmrun", e.Name(), "the script left a file")
	}
	return string(out), string(data), err
}

func TestInstall(t *testing.T) {
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		t.Run(shell[0], func(t *testing.T) {
			i := newInstaller(t, shell...)
			out, installed, err := i.run()
			require.NoError(t, err, out)
			require.Contains(t, out, "installed llmrun v1 as "+i.home+"/.local/bin/llmrun")
			require.Contains(t, out, `export PATH="`+i.home+`/.local/bin:$PATH"`)
			require.Equal(t, "#!/bin/sh\necho llmrun v1\n", installed)
			i.publish("#!/bin/sh\necho llmrun v2\n")
			out, installed, err = i.run("PATH=" + i.home + "/.local/bin:" + os.Getenv("PATH"))
			require.NoError(t, err, out)
			require.NotContains(t, out, "not in PATH")
			require.Contains(t, installed, "v2")
		})
	}
}

// TestInstallRefuses breaks the release in several ways. The old program stays, and no other file.
func TestInstallRefuses(t *testing.T) {
	i := newInstaller(t, "sh")
	_, old, err := i.run()
	require.NoError(t, err)
	require.NotEmpty(t, old)
	for name, c := range map[string]struct {
		spoil func()
		says  string
	}{
		"another sum":       {func() { i.write("SHA256SUMS", strings.Repeat("0", 64)+"  "+i.archive()+"\n") }, "nothing was installed"},
		"a shorter archive": {func() { i.write(i.archive(), i.read(i.archive())[:50]) }, "nothing was installed"},
		"another system":    {func() { i.write("SHA256SUMS", strings.Repeat("0", 64)+"  llmrun-plan9-mips.tar.gz\n") }, "has no program for this system"},
		"no sums":           {func() { require.NoError(t, os.Remove(filepath.Join(i.files, "SHA256SUMS"))) }, "cannot get"},
		"no archive":        {func() { require.NoError(t, os.Remove(filepath.Join(i.files, i.archive()))) }, "cannot get"},
		"a broken program":  {func() { i.publish("#!/bin/sh\nexit 1\n") }, "does not run on this system"},
	} {
		t.Run(name, func(t *testing.T) {
			i.publish("#!/bin/sh\necho llmrun v2\n")
			c.spoil()
			out, installed, err := i.run()
			require.Error(t, err, out)
			require.Contains(t, out, c.says)
			require.Equal(t, old, installed)
		})
	}
	t.Run("no address", func(t *testing.T) {
		out, _, err := i.run("LLMRUN_URL=")
		require.Error(t, err)
		require.Contains(t, out, "set LLMRUN_URL")
		out, _, err = i.run("LLMRUN_URL=ftp://127.0.0.1")
		require.Error(t, err)
		require.Contains(t, out, "LLMRUN_URL must begin with")
	})
}

// TestInstallFromServer installs over HTTP, where curl or wget is there, and from a server that fails.
func TestInstallFromServer(t *testing.T) {
	i := newInstaller(t, "sh")
	if _, err := exec.LookPath("curl"); err != nil {
		if _, err := exec.LookPath("wget"); err != nil {
			t.Skip("neither curl nor wget is installed")
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(i.files)))
	defer server.Close()
	i.url = server.URL + "/"
	out, installed, err := i.run()
	require.NoError(t, err, out)
	require.Contains(t, installed, "v1")
	i.url = server.URL + "/none"
	out, _, err = i.run()
	require.Error(t, err)
	require.Contains(t, out, "cannot get")
}
