//go:build !gpu

package opencl

// openLibrary returns ErrNotBuilt: loading libraries would make the program depend
// on the system's dynamic loader.
func openLibrary(string) (find func(function string) (uintptr, error), err error) {
	return nil, ErrNotBuilt
}

// call is unreachable: no library was opened.
//
//go:uintptrescapes
func call(uintptr, ...uintptr) uintptr { return 0 }
