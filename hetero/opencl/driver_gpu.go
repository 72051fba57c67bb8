//go:build gpu && !windows

package opencl

import "github.com/ebitengine/purego"

// openLibrary loads a library and returns a lookup of its functions.
func openLibrary(name string) (find func(function string) (uintptr, error), err error) {
	lib, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	return func(function string) (uintptr, error) { return purego.Dlsym(lib, function) }, nil
}

// call calls a driver function. Memory that arguments point to stays in place.
//
//go:uintptrescapes
func call(function uintptr, args ...uintptr) uintptr {
	result, _, _ := purego.SyscallN(function, args...)
	return result
}
