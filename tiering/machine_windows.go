package tiering

import "unsafe"

// ReadMachine describes this machine.
func ReadMachine() Machine {
	var s memoryStatus
	s.length = uint32(unsafe.Sizeof(s))
	if ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&s))); ok == 0 || s.totalPhys > 1<<62 {
		return Machine{}
	}
	return Machine{Total: int64(s.totalPhys)}
}
