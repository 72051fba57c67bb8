package threadpool

import "io/fs"

func fastCores(root fs.FS, fallback int) int { return coresFromSysfs(root, fallback) }
