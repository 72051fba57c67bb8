// Package build says which build of the program this is.
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Name names this build, for files to say what wrote them.
func Name() string {
	version := "(unknown)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, dep := range info.Deps {
			if strings.HasSuffix(dep.Path, "llmrun/llmrun") {
				version = dep.Version // a program that uses the library
			}
		}
	}
	return fmt.Sprintf("llmrun %s %s/%s", version, runtime.GOOS, runtime.GOARCH)
}
