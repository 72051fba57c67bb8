// Package solve decides how a matmul is split between two devices and runs the
// split.
//
// A [Profiler] measures matmuls on real or simulated devices. A [Predictor] measures
// a few matmuls and predicts the others: with a regression tree for devices whose
// speed changes in steps of the shape, with a constant rate for other devices. A
// [Solver] enumerates the useful splits ([Steps.Cuts]) and selects the split that ends
// first, including waits and copies. An [Executor] runs split matmuls.
package solve
