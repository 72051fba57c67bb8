// Package build identifies the build of the program. Files that the program writes
// record [Name].
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Name returns the version and the platform of this build.
func Name() string {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, dep := range info.Deps {
			if strings.HasSuffix(dep.Path, "llmrun/llmrun") {
				version = dep.Version // another program uses this module as a library
			}
		}
	}
	return fmt.Sprintf("llmrun %s %s/%s", version, runtime.GOOS, runtime.GOARCH)
}
