//go:build !linux

package vfs

// StorageOf returns nothing: only Linux tells it in one way.
func StorageOf(string) Storage { return Storage{} }
