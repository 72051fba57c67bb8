// Package rates measures the two rates that determine a model's speed, for planners
// to predict from: flash reads, and matmuls with the engine's own kernels for one
// token and for many.
//
// Measuring takes about a second and temporarily up to 1 GiB of memory.
package rates
