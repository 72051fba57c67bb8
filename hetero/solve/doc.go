// Package solve decides how a matmul is split between two devices and runs the
// split.
//
// A [Profiler] measures matmuls on real or simulated devices. A [Predictor]
// measures a few and predicts the others: with a regression tree for devices whose
// speed changes in steps of the shape, with a constant rate otherwise. A [Solver]
// enumerates the useful splits ([Steps.Cuts]) and takes the one that ends first,
// including waits and copies. An [Executor] runs a matmul as it was split.
//
// Simulated and real devices are treated alike.
package solve
