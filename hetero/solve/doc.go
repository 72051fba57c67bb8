// Package solve decides how a matrix product is divided between two devices,
// and does it.
//
// A [Profiler] finds out how long products take on a device: by running them
// (real execution), or by running a few and predicting the rest with a
// regression tree, for devices whose speed depends on shapes in steps, and a
// fixed rate for others. A [Solver] goes through all ways to cut a product that
// are worth a look, [Cuts] says which, and takes the one that ends first,
// waiting and copies included. An [Executor] runs a product as it was cut.
//
// Nothing here knows whether a device is simulated.
package solve
