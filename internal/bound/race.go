//go:build race

package bound

// slowdown is how much longer the race detector lets code run.
const slowdown = 20
