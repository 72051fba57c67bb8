package limits

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// adviseHuge requests transparent huge pages for the aligned 2 MiB ranges of
// memory. With 4 KiB pages a sweep would also measure TLB misses.
func adviseHuge(memory []byte) {
	const huge = 2 << 20
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(memory))) % huge
	if uintptr(len(memory)) < skip+huge {
		return
	}
	whole := (uintptr(len(memory)) - skip) / huge * huge
	_ = unix.Madvise(memory[skip:skip+whole], unix.MADV_HUGEPAGE) // only advice
}
