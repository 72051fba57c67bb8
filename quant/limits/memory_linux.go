package limits

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge asks for large pages, where the memory has whole ones. Without
// them a sweep measures the look-up of addresses too.
func adviseHuge(memory []byte) {
	const huge = 2 << 20
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % huge
	if uintptr(len(memory)) < skip+huge {
		return
	}
	whole := (uintptr(len(memory)) - skip) / huge * huge
	_ = unix.Madvise(memory[skip:skip+whole], unix.MADV_HUGEPAGE) // only advice
}
