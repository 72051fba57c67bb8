// Command version prints what the build calls itself.
package main

import (
	"fmt"

	"github.com/llmrun/llmrun/internal/build"
)

func main() { fmt.Print(build.Version()) }
