//go:build !noasm

package tiled

import (
	"os"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// What arch_prctl(2) calls the permission to use tiles and their data.
const (
	archReqXCompPerm = 0x1023
	xfeatureTileData = 18
)

// tilesAllowed reports whether the processor has tile registers and the system
// lets this process use them, for which it has to be asked: the state that it
// saves for every thread grows by 8 KiB. Whoever asks for the path of AVX-512
// by name does without.
func tilesAllowed() bool {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 || os.Getenv("LLMRUN_CPU") == "avx512" {
		return false
	}
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXCompPerm, xfeatureTileData, 0)
	return errno == 0
}
