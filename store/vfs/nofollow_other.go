//go:build !linux && !darwin

package vfs

// noFollow is not available; creating symbolic links needs a privilege on Windows.
const noFollow = 0
