package kv

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// Check runs the kernels of attention in a format on a few fixed random blocks
// and compares them with their portable twins, bit for bit, which takes less than
// a millisecond or two. A kernel that a processor, a virtual machine or a
// compiler breaks gives text that is wrong in ways that no error shows; so models
// are not loaded with it. The error is a [quant.KernelError].
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
		return fmt.Errorf("kv: keys and values in %s: %w", f, err)
	}
	return nil
}
