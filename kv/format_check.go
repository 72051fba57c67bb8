package kv

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// Check runs the attention kernels of a format on a few fixed pseudo-random blocks
// and compares the results with the portable kernels, bit for bit. It takes one to
// two milliseconds. A kernel that is broken on this processor, virtual machine or
// compiler would produce wrong text without an error, so a model is not loaded when
// Check fails. The error is a [quant.KernelError].
func (f Format) Check(headDim int) error {
	var err error
	switch f {
	case F32, F16:
		err = quant.CheckFloats(headDim)
	default:
		bits := 8
		if f == K4V8 {
			bits = 4
		}
		if err = tiled.CheckKeys(KeyCols(headDim), bits); err == nil {
			err = quant.CheckCodes(headDim)
		}
	}
	if err != nil {
		return fmt.Errorf("kv: attention kernels for KV format %s: %w", f, err)
	}
	return nil
}
