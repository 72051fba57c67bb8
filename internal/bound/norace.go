//go:build !race

package bound

const slowdown = 1
