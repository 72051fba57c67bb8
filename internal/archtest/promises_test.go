package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/llmrun/llmrun/internal/testutil"
)

// maxScanned is the largest size of a file that is searched as text; weights are larger.
const maxScanned = 1 << 20

// foreign are names of one machine or one network, on which the tree must not depend. They are
// concatenated, so that this file does not match itself.
var foreign = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a path of one machine", regexp.MustCompile(`(?:^|[^\w.~$}/-])/(?:` + "ro" + `ot|` + "wo" + `rk|` + "ho" + `me)/[\w.]`)},
	{"the host of a package registry", regexp.MustCompile(`\b(?:` + "pro" + `xy|` + "su" + `m)\.golang\.org|` +
		"goproxy" + `\.(?:io|cn)|` + "pypi" + `\.org|` + "registry" + `\.npmjs\.org|` + "deb" + `\.debian\.org`)},
	{"a side of a merge that nobody has finished", regexp.MustCompile(`^(?:<{7}|>{7}) `)},
	{"a number of an issue", regexp.MustCompile(`(?i)\bissue\s+#?\d`)},
}

func TestTreeNamesNoMachine(t *testing.T) {
	walkFiles(t, func(rel, full string) {
		info, err := os.Stat(full)
		if err != nil || info.Size() > maxScanned {
			return
		}
		data, err := os.ReadFile(full)
		if err != nil {
			t.Error(err)
			return
		}
		if bytes.IndexByte(data, 0) >= 0 {
			return
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, f := range foreign {
				if found := f.pattern.FindString(line); found != "" {
					t.Errorf("%s:%d names %s: %q", rel, i+1, f.what, found)
				}
			}
		}
	})
}

// documents returns the text of every Markdown file by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	walkFiles(t, func(rel, full string) {
		if !strings.HasSuffix(rel, ".md") {
			return
		}
		data, err := os.ReadFile(full)
		if err != nil {
			t.Error(err)
		}
		texts[rel] = string(data)
	})
	if texts["README.md"] == "" {
		t.Fatal("README.md is missing or empty")
	}
	return texts
}

func TestDocumentedTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(testutil.Root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(makefile, -1) {
		targets[string(match[1])] = true
	}
	// A command at the start of a line of code, or in backquotes.
	mention := regexp.MustCompile("(?m)(?:^\\$? *|`)make ([a-z0-9-]+)")
	for name, text := range documents(t) {
		for _, match := range mention.FindAllStringSubmatch(text, -1) {
			if !targets[match[1]] {
				t.Errorf("%s mentions `make %s`, which the Makefile does not have", name, match[1])
			}
		}
	}
}

func TestDocumentLinksResolve(t *testing.T) {
	root := testutil.Root(t)
	link := regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	for name, text := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target := match[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, target)
			}
		}
	}
}

// TestDocumentedProgramsBuild compiles every whole program in the documents.
func TestDocumentedProgramsBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	root := testutil.Root(t)
	block := regexp.MustCompile("(?ms)^```go\n(package main\n.*?)^```")
	found := 0
	for name, text := range documents(t) {
		for _, match := range block.FindAllStringSubmatch(text, -1) {
			found++
			source := filepath.Join(t.TempDir(), "main.go")
			if err := os.WriteFile(source, []byte(match[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			build := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "program"), source)
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Errorf("a program in %s does not build: %v\n%s", name, err, out)
			}
		}
	}
	if found == 0 {
		t.Error("README.md shows no program that uses the library")
	}
}

// buildProgram builds a command of cmd as `make build` does and returns its path.
func buildProgram(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a command")
	}
	binary := filepath.Join(t.TempDir(), name)
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "./cmd/"+name)
	build.Dir = testutil.Root(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}
