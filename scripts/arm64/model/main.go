// Command model writes a model of random weights in a published shape with fewer layers and tokens, for
// an emulator: what a layer costs does not depend on how many there are.
//
// usage: go run ./scripts/arm64/model SHAPE MIX LAYERS VOCABULARY FILE.gguf
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func write(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("usage: model SHAPE MIX LAYERS VOCABULARY FILE.gguf")
	}
	shape, ok := synth.FindShape(args[0])
	if !ok {
		return fmt.Errorf("there is no shape %q; llmrun synth --list prints them", args[0])
	}
	for i, size := range []*int{&shape.Layers, &shape.Vocab} {
		n, err := strconv.Atoi(args[2+i])
		if err != nil || n < 1 || n > *size {
			return fmt.Errorf("%q must be a number from 1 to %d", args[2+i], *size)
		}
		*size = n
	}
	return synth.Write(context.Background(), vfs.OS(), args[4], synth.Options{Shape: shape, Quant: args[1]})
}
