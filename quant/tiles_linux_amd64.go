//go:build !noasm

package quant

import (
	"sync"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// What arch_prctl(2) calls the permission to use tiles and their data.
const (
	archReqXCompPerm = 0x1023
	xfeatureTileData = 18
)

// tilesAllowed requests permission to use tiles, once per process: the permission
// adds 8 KiB to the state that Linux saves for every thread.
var tilesAllowed = sync.OnceValue(func() bool {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 {
		return false
	}
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXCompPerm, xfeatureTileData, 0)
	return errno == 0
})
