//go:build !noasm

package crc

import "golang.org/x/sys/cpu"

// hasFold says that the processor has the instruction for CRC-32C and multiplies
// polynomials.
var hasFold = cpu.ARM64.HasCRC32 && cpu.ARM64.HasPMULL

// foldBytes is what is summed in a round, in three parts at the same time.
const foldBytes = 3 * 1024

// fold adds n bytes to the state of a sum, which is the sum inverted. n is a multiple of
// foldBytes, not 0.
//
//go:noescape
func fold(state uint32, data *byte, n int) uint32
