//go:build !linux && !darwin

package threadpool

import "io/fs"

// fastCores returns fallback: on this system all CPUs count as fast cores.
func fastCores(_ fs.FS, fallback int) int { return fallback }
