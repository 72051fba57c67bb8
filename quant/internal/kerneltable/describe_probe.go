//go:build kernelprobe

package main

import (
	"encoding/json"
	"os"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// The program that probe runs prints which kernels each path of package quant calls for each work.
func init() {
	describe = func() error {
		return json.NewEncoder(os.Stdout).Encode(append(quant.ProbeKernels(), tiled.ProbeKernels()...))
	}
}
