package tiering

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapPages reserves and commits size bytes of zeroed memory.
func mapPages(size int) ([]byte, error) {
	return allocate(size, windows.MEM_RESERVE|windows.MEM_COMMIT)
}

// reservePages reserves the addresses of size bytes, which recommit makes usable. Windows counts committed memory toward
// the limit of the system even if nothing uses it.
func reservePages(size int) ([]byte, error) { return allocate(size, windows.MEM_RESERVE) }

func allocate(size int, kind uint32) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(size), kind, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// The address comes from the system, not from Go's heap. vet accepts only the
	// conversion through a pointer to the variable.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

// unmapPages unmaps the result of mapPages. It fails only for an address that is not
// an allocation, which is a bug in Frame.
func unmapPages(pages []byte) {
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(pages)))
	if err := windows.VirtualFree(addr, 0, windows.MEM_RELEASE); err != nil {
		panic("tiering: VirtualFree: " + err.Error())
	}
}

// discard releases the memory of pages and retains their addresses.
func discard(pages []byte) {
	_ = windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)), windows.MEM_DECOMMIT)
}

// recommit makes reserved or discarded pages usable.
func recommit(pages []byte) error {
	_, err := windows.VirtualAlloc(uintptr(unsafe.Pointer(unsafe.SliceData(pages))), uintptr(len(pages)), windows.MEM_COMMIT, windows.PAGE_READWRITE)
	return err
}
