//go:build !linux

package vfs

import "os"

func directRefused(error) bool { return true }

func dropBehind(*os.File, int64, int64) {}
