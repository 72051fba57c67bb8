//go:build !noasm

package crc

import "golang.org/x/sys/cpu"

// hasFold reports whether the processor has carry-less multiplication in 512-bit registers.
var hasFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42

// foldBytes is the number of bytes that fold processes in one iteration.
const foldBytes = 256

// fold updates a CRC state, which is the inverted checksum, with n bytes of data. n is a
// positive multiple of foldBytes.
//
//go:noescape
func fold(state uint32, data *byte, n int) uint32
