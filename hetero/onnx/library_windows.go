//go:build npu

package onnx

import "golang.org/x/sys/windows"

// symbol loads a library and returns the address of one of its functions.
func symbol(library, name string) (uintptr, error) {
	handle, err := windows.LoadLibrary(library)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(handle, name)
}

// path returns the address of a path as the library reads it: in UTF-16. One that
// holds a zero names no file; the library is given the empty path instead and
// says that it cannot be opened.
func (p *pinned) path(name string) uintptr {
	wide, err := windows.UTF16FromString(name)
	if err != nil {
		wide = []uint16{0}
	}
	return pin(p, wide)
}
