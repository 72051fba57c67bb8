// Package measure implements the measurements of llmlab. It imports packages below the library,
// because it needs what the library does not export: the bytes that a pass moves, the operations
// that it computes, and the limits of the machine.
package measure
