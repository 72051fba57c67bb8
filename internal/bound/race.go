//go:build race

package bound

// slowdown is the factor by which the race detector extends the time limit.
const slowdown = 20
