package threadpool

import "io/fs"

// fastCores returns the number of fast physical cores, or fallback if Linux does not
// report it.
func fastCores(root fs.FS, fallback int) int { return coresFromSysfs(root, fallback) }
