package tiering

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatus is MEMORYSTATUSEX of the Windows API.
type memoryStatus struct {
	length        uint32
	load          uint32
	totalPhys     uint64
	availPhys     uint64
	totalPageFile uint64
	availPageFile uint64
	totalVirtual  uint64
	availVirtual  uint64
	availExtended uint64
}

var globalMemoryStatus = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

func systemAvailable() int64 {
	var s memoryStatus
	s.length = uint32(unsafe.Sizeof(s))
	if ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&s))); ok == 0 || s.availPhys > 1<<62 {
		return 0
	}
	return int64(s.availPhys)
}
