// Package papers puts what papers measured on phones beside what the simulator
// says: the same models, methods and lengths, run through the profiler, the
// solver and the executor that real devices use.
package papers
