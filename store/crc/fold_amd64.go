//go:build !noasm

package crc

import "golang.org/x/sys/cpu"

// hasFold says that the processor multiplies polynomials in registers of 512 bits.
var hasFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// foldBytes is what is folded in a round.
const foldBytes = 256

// fold adds n bytes to the state of a sum, which is the sum inverted. n is a multiple of
// foldBytes, not 0.
//
//go:noescape
func fold(state uint32, data *byte, n int) uint32
