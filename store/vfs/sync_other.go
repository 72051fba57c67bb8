//go:build !windows

package vfs

import "os"

func syncFile(f *os.File) error { return f.Sync() }
