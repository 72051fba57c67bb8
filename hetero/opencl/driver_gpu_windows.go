//go:build gpu

package opencl

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// openLibrary loads a library and returns a lookup of its functions.
func openLibrary(name string) (find func(function string) (uintptr, error), err error) {
	lib, err := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32|windows.LOAD_LIBRARY_SEARCH_APPLICATION_DIR)
	if err != nil {
		return nil, err
	}
	return func(function string) (uintptr, error) { return windows.GetProcAddress(lib, function) }, nil
}

// call calls a driver function. Memory that arguments point to stays in place.
//
//go:uintptrescapes
func call(function uintptr, args ...uintptr) uintptr {
	result, _, _ := syscall.SyscallN(function, args...)
	return result
}
