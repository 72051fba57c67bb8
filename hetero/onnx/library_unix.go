//go:build npu && !windows

package onnx

import "github.com/ebitengine/purego"

// symbol loads a library and returns the address of a function.
func symbol(library, name string) (uintptr, error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	return purego.Dlsym(handle, name)
}

// path returns the address of a path in the library's encoding.
func (p *pinned) path(name string) uintptr { return p.text(name) }
