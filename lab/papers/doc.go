// Package papers compares measurements of phones in papers with the simulator. It runs the same
// models, methods and lengths through the profiler, the solver and the executor that real
// devices use.
package papers
