// Package rates measures the rates from which planners predict the speed of a model:
// flash reads, and matmuls with the engine's own kernels for one token and for many.
//
// Measuring takes about a second and temporarily up to 1 GiB of memory.
package rates
