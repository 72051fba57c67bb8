//go:build !linux && !darwin && !windows

package tiering

func systemAvailable() int64 { return 0 }
