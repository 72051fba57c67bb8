package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// makeRelease makes a release of the test binary in a directory of its own, from a tree of its own.
func makeRelease(t *testing.T, at time.Time) map[string][]byte {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	write("LICENSE", "licence", 0o600)
	write("README.md", "read", 0o644)
	write("scripts/install.sh", "#!/bin/sh\n", 0o755)
	write("extras/completions/llmrun.bash", "bash", 0o644)
	write("extras/completions/_llmrun", "zsh", 0o644)
	write("extras/man/llmrun.1", "man", 0o644)
	for _, name := range []string{"llmrun-linux-amd64", "llmrun-windows-amd64.exe", "llmrun-android-arm64"} {
		write(name, string(binary), 0o600)
	}
	t.Chdir(dir)
	r := release{version: "v1.2.3", extras: "extras", out: "out", time: at, level: gzip.NoCompression}
	require.NoError(t, r.make([]string{"llmrun-windows-amd64.exe", "llmrun-linux-amd64", "llmrun-android-arm64"}))
	files := map[string][]byte{}
	entries, err := os.ReadDir("out")
	require.NoError(t, err)
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join("out", e.Name()))
		require.NoError(t, err)
	}
	return files
}

// untar lists the names and modes of a compressed tar.
func untar(t *testing.T, data []byte) (list []string) {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	for in := tar.NewReader(plain); ; {
		h, err := in.Next()
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		require.Zero(t, h.Uid+h.Gid)
		require.EqualValues(t, 1700000000, h.ModTime.Unix())
		if h.Typeflag == tar.TypeReg {
			list = append(list, fmt.Sprintf("%s %o", h.Name, h.Mode))
		}
	}
}

func TestReleasesAreTheSame(t *testing.T) {
	at := time.Unix(1700000000, 0).UTC()
	first, second := makeRelease(t, at), makeRelease(t, at)
	require.Len(t, first, 7)
	for name := range first {
		require.True(t, bytes.Equal(first[name], second[name]), name)
	}

	require.Equal(t, []string{
		"llmrun-android-arm64/llmrun 755", "llmrun-android-arm64/LICENSE 644", "llmrun-android-arm64/README.md 644",
		"llmrun-android-arm64/completions/_llmrun 644", "llmrun-android-arm64/completions/llmrun.bash 644", "llmrun-android-arm64/man/llmrun.1 644",
	}, untar(t, first["llmrun-android-arm64.tar.gz"]))
	zipped, err := zip.NewReader(bytes.NewReader(first["llmrun-windows-amd64.zip"]), int64(len(first["llmrun-windows-amd64.zip"])))
	require.NoError(t, err)
	require.Equal(t, "llmrun-windows-amd64/llmrun.exe", zipped.File[0].Name)
	require.Len(t, zipped.File, 6)

	sums := strings.Split(strings.TrimSpace(string(first["SHA256SUMS"])), "\n")
	require.Len(t, sums, 6)
	for _, line := range sums {
		require.Regexp(t, `^[0-9a-f]{64}  [\w.-]+$`, line)
	}
}

func TestSBOMListsModules(t *testing.T) {
	var d struct {
		Files    []struct{ FileName string }
		Packages []struct {
			SPDXID, Name, VersionInfo string
			ExternalRefs              []struct{ ReferenceLocator string }
		}
		Relationships []map[string]string
		Namespace     string `json:"documentNamespace"`
	}
	require.NoError(t, json.Unmarshal(makeRelease(t, time.Unix(1700000000, 0).UTC())["llmrun.spdx.json"], &d))
	require.Len(t, d.Files, 3)
	require.NotEmpty(t, d.Namespace)
	known, names := map[string]bool{"SPDXRef-DOCUMENT": true}, map[string]bool{}
	for _, p := range d.Packages {
		require.False(t, known[p.SPDXID], p.SPDXID)
		known[p.SPDXID], names[p.Name] = true, true
		if p.Name == "github.com/llmrun/llmrun" {
			require.Equal(t, "pkg:golang/github.com/llmrun/llmrun@v1.2.3", p.ExternalRefs[0].ReferenceLocator)
		}
	}
	for _, want := range []string{"github.com/llmrun/llmrun", "llmrun-demo-model", "stdlib"} {
		require.True(t, names[want], want)
	}
	for _, r := range d.Relationships {
		require.True(t, known[r["relatedSpdxElement"]], r)
	}
}

func TestSBOMKnowsReplacedModules(t *testing.T) {
	var b sbom
	b.addBuild(&program{path: "llmrun-linux-amd64"}, &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.org/main"}, Deps: []*debug.Module{
		{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:a"},
		{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v2.0.0"}},
	}})
	require.Len(t, b.modules, 3)
	require.Equal(t, "go.sum: h1:a", b.modules["SPDXRef-Package-example.org-a-v1.0.0"].Comment)
	require.Equal(t, "pkg:golang/example.org/fork@v2.0.0", b.modules["SPDXRef-Package-example.org-fork-v2.0.0"].Refs[0].Locator)
	require.Equal(t, "1.26.8", b.modules["SPDXRef-Package-stdlib-1.26.8"].Version)
	require.Len(t, b.uses, 4)
}

// TestDebianPackage lists the package with dpkg where that is installed, and reads its container anywhere.
func TestDebianPackage(t *testing.T) {
	deb := makeRelease(t, time.Unix(1700000000, 0).UTC())["llmrun_amd64.deb"]
	require.True(t, bytes.HasPrefix(deb, []byte("!<arch>\ndebian-binary   1700000000  0     0     100644  4         `\n2.0\n")))
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-4-gabcdef0": "1.2.3+4+gabcdef0", "v1.2.3-rc.1": "1.2.3~rc.1", "v1.2.3-rc1-4-gabcdef0-dirty": "1.2.3~rc1+4+gabcdef0+dirty", "abcdef0": "0~abcdef0", "1bcdef0-dirty": "0~1bcdef0+dirty"} {
		require.Equal(t, want, debianVersion(version))
	}
	dpkg, err := exec.LookPath("dpkg-deb")
	if err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	name := filepath.Join(t.TempDir(), "llmrun.deb")
	require.NoError(t, os.WriteFile(name, deb, 0o600))
	out, err := exec.Command(dpkg, "--field", name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "Version: 1.2.3\nArchitecture: amd64\n")
	out, err = exec.Command(dpkg, "--contents", name).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{
		`drwxr-xr-x root/root .* \./usr/bin/\n`, `-rwxr-xr-x root/root .* \./usr/bin/llmrun\n`, `./usr/share/doc/llmrun/copyright\n`, `./usr/share/bash-completion/completions/llmrun\n`,
		`./usr/share/zsh/vendor-completions/_llmrun\n`, `./usr/share/man/man1/llmrun.1.gz\n`,
	} {
		require.Regexp(t, want, string(out))
	}
}

func TestOtherNamesAreRefused(t *testing.T) {
	for _, name := range []string{"llmrun", "llmlab-linux-amd64", "llmrun-linux-amd64-old"} {
		_, err := openProgram(name)
		require.ErrorContains(t, err, "must look like llmrun-linux-amd64")
	}
}
