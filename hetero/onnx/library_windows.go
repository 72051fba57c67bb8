//go:build npu

package onnx

import "golang.org/x/sys/windows"

// symbol loads a library and returns the address of a function.
func symbol(library, name string) (uintptr, error) {
	handle, err := windows.LoadLibrary(library)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(handle, name)
}

// path returns the address of a path in the library's encoding, UTF-16. A path that
// contains NUL becomes the empty path, which the library rejects.
func (p *pinned) path(name string) uintptr {
	wide, err := windows.UTF16FromString(name)
	if err != nil {
		wide = []uint16{0}
	}
	return pin(p, wide)
}
