//go:build linux || darwin

package vfs

import "golang.org/x/sys/unix"

// noFollow makes opening a symbolic link fail.
const noFollow = unix.O_NOFOLLOW
