// Package build identifies the build of the program. Files that the program writes
// record [Name].
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// release is the version that scripts/cross.sh sets while it links. Go knows none where it does not ask the repository.
var release string

// Version returns the version of this module in this build.
func Version() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		info = &debug.BuildInfo{Main: debug.Module{Version: "(unknown)"}}
	}
	return versionOf(release, info)
}

// versionOf returns the version that was set, or that of the build information.
func versionOf(release string, info *debug.BuildInfo) string {
	if release != "" {
		return release
	}
	for _, dep := range info.Deps {
		if strings.HasSuffix(dep.Path, "llmrun/llmrun") {
			return dep.Version // another program uses this module as a library
		}
	}
	return info.Main.Version
}

// Name returns the version and the platform of this build.
func Name() string { return fmt.Sprintf("llmrun %s %s/%s", Version(), runtime.GOOS, runtime.GOARCH) }
