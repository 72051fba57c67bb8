//go:build !noasm

package crc

import "golang.org/x/sys/cpu"

// hasFold reports whether the processor has the CRC-32C instructions and polynomial
// multiplication.
var hasFold = cpu.ARM64.HasCRC32 && cpu.ARM64.HasPMULL

// foldBytes is the number of bytes that fold processes in one iteration, in three
// interleaved streams.
const foldBytes = 3 * 1024

// fold updates a CRC state, which is the inverted checksum, with n bytes of data. n is a
// positive multiple of foldBytes.
//
//go:noescape
func fold(state uint32, data *byte, n int) uint32
