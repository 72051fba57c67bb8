package main

// outputs lists the generated files.
var outputs = append(quantOutputs, tiledOutputs...)

// quantOutputs are those of quant and quant/limits.
var quantOutputs = []output{
	{"limits/read_amd64.s", "read_amd64.s.tmpl", []readKernel{
		{ISA: "AVX512", Load: "VMOVDQU32", Reg: "Z", Bytes: 64},
		{ISA: "AVX2", Load: "VMOVDQU", Reg: "Y", Bytes: 32},
	}},
	{"avx2_values_i8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx2", Four: "weightedSum4x16AVX2", One: "weightedSum1x16AVX2"}},
	{"avx2_values_f8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx2", F8: true, Four: "weightedSumF8x4x16", One: "weightedSumF8x1x16"}},
	{"avx512_values_i8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx512", Wide: true, Four: "weightedSum4x64AVX512", One: "weightedSum1x64AVX512"}},
	{"avx512_values_f8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx512", Wide: true, F8: true, Four: "weightedSumF8x4AVX512", One: "weightedSumF8x1AVX512"}},
	{"neon_values_i8_arm64.s", "values_arm64.s.tmpl", valuesKernel{Four: "weightedSum4x16NEON", One: "weightedSum1x16NEON"}},
	{"neon_values_f8_arm64.s", "values_arm64.s.tmpl", valuesKernel{F8: true, Four: "weightedSumF8x4x16", One: "weightedSumF8x1x16"}},
}

// readKernel reads memory with the vectors of one instruction set.
type readKernel struct {
	ISA, Load, Reg string
	Bytes          int // of a vector
}

// Bases are the registers that point to the four quarters, Counters their names
// and Steps the vectors of a quarter in one pass of the loop.
func (readKernel) Bases() []string    { return []string{"(R8)", "(R9)", "(R10)", "(R11)"} }
func (readKernel) Counters() []string { return []string{"R8", "R9", "R10", "R11"} }
func (readKernel) Steps() []int       { return []int{0, 1, 2, 3} }

// valuesKernel adds weighted values of one number format.
type valuesKernel struct {
	Lower     string // the prefix of the header with common macros
	Wide      bool   // registers of 512 bits
	F8        bool   // 8-bit floats, token after token; otherwise integers in pairs of tokens
	Four, One string // the functions for four queries and for one
}

// Elems is how many elements a kernel takes at once, Sums how many registers
// hold a query's sums and Reg their kind.
func (k valuesKernel) Elems() int { return pick(k.Wide, 64, 16) }
func (k valuesKernel) Sums() int  { return pick(k.Wide, 4, 2) }

func (k valuesKernel) Reg() string { return pick(k.Wide, "Z", "Y") }

// NextBytes is the size of the argument next, which wide kernels have.
func (k valuesKernel) NextBytes() int { return pick(k.Wide, 8, 0) }

// Type and Count are the type of values and what the last argument counts.
func (k valuesKernel) Type() string  { return pick(k.F8, "uint8", "int8") }
func (k valuesKernel) Count() string { return pick(k.F8, "count", "pairs") }

// pick returns one of two values.
func pick[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}
