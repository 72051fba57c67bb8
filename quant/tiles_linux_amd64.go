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

// tilesAllowed asks the system once: the state that it saves for every thread
// of the process grows by 8 KiB.
var tilesAllowed = sync.OnceValue(func() bool {
	if !cpu.X86.HasAMXTile || !cpu.X86.HasAMXInt8 {
		return false
	}
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archReqXCompPerm, xfeatureTileData, 0)
	return errno == 0
})
