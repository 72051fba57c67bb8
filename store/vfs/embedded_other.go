//go:build !linux

package vfs

// mappedFrom returns nothing: this system does not say where a mapping comes from.
func mappedFrom(string) []place { return nil }

// releasePages does nothing: this system reclaims clean pages of the program by itself.
func releasePages(string) {}
