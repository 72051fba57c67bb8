//go:build !linux

package vfs

import "os"

func (osFS) directReader(string) *os.File { return nil }

func directRefused(error) bool { return true }

func dropBehind(*os.File, int64, int64) {}
