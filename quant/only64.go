//go:build 386 || arm || mips || mipsle

package quant

// Files are larger than the addresses of these processors, and sizes are ints.
var _ = llmrun_needs_a_64_bit_processor
