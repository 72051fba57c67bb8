package build

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	own := &debug.BuildInfo{Main: debug.Module{Path: "github.com/llmrun/llmrun", Version: "(devel)"}}
	assert.Equal(t, "(devel)", versionOf("", own))
	assert.Equal(t, "v1.2.3", versionOf("v1.2.3", own), "what the release is called")
	other := &debug.BuildInfo{Main: debug.Module{Path: "example.com/app", Version: "v9.0.0"}, Deps: []*debug.Module{{Path: "github.com/llmrun/llmrun", Version: "v1.0.0"}}}
	assert.Equal(t, "v1.0.0", versionOf("", other))
}

// TestCrossSetsVersion builds a small program with the linker flag of scripts/cross.sh, and without a repository's version.
func TestCrossSetsVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	script, err := os.ReadFile(filepath.Join("..", "..", "scripts", "cross.sh"))
	require.NoError(t, err)
	flag := regexp.MustCompile(`-X (\S+)=\$version`).FindSubmatch(script)
	require.NotNil(t, flag, "scripts/cross.sh sets the version")
	program := filepath.Join(t.TempDir(), "version")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-X "+string(flag[1])+"=v1.2.3-4-gabc", "-o", program, "./testdata/version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	assert.Equal(t, "v1.2.3-4-gabc", string(out))
}
