package main

import "slices"

// outputs lists the generated files.
var outputs = slices.Concat(quantOutputs, tiledOutputs, planeOutputs, shapeOutputs())

// quantOutputs are those of quant and quant/limits.
var quantOutputs = []output{
	{"limits/read_amd64.s", "read_amd64.s.tmpl", []readKernel{
		{ISA: "AVX512", Load: "VMOVDQU32", Reg: "Z", Bytes: 64},
		{ISA: "AVX2", Load: "VMOVDQU", Reg: "Y", Bytes: 32},
	}},
	{"avx2_values_i8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx2", Four: "weightedSum4x16AVX2", One: "weightedSum1x16AVX2"}},
	{"avxvnni_values_i8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx2", VNNI: true, Four: "weightedSum4x16VNNI", One: "weightedSum1x16VNNI"}},
	{"avx2_values_f8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx2", F8: true, Four: "weightedSumF8x4x16", One: "weightedSumF8x1x16"}},
	{"avx512_values_i8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx512", Wide: true, Four: "weightedSum4x64AVX512", One: "weightedSum1x64AVX512"}},
	{"avx512_values_f8_amd64.s", "values_amd64.s.tmpl", valuesKernel{Lower: "avx512", Wide: true, F8: true, Four: "weightedSumF8x4AVX512", One: "weightedSumF8x1AVX512"}},
	{"neon_values_i8_arm64.s", "values_arm64.s.tmpl", valuesKernel{Four: "weightedSum4x16NEON", One: "weightedSum1x16NEON"}},
	{"avx2_dequant_amd64.s", "dequant_amd64.s.tmpl", dequantAVX2},
	{"avx2_dequant_amd64.go", "dequant_amd64.go.tmpl", dequantAVX2},
	{"avx512_dequant_amd64.s", "dequant_amd64.s.tmpl", dequantAVX512},
	{"avx512_dequant_amd64.go", "dequant_amd64.go.tmpl", dequantAVX512},
	{"avx2_dot_amd64.s", "dot_amd64.s.tmpl", dotAVX2},
	{"avx2_dot_amd64.go", "dot_amd64.go.tmpl", dotAVX2},
	{"avx512_dot_amd64.s", "dot_amd64.s.tmpl", dotAVX512},
	{"avx512_dot_amd64.go", "dot_amd64.go.tmpl", dotAVX512},
	{"avx2_vector_amd64.s", "vector_amd64.s.tmpl", vectorAVX2},
	{"avx2_vector_amd64.go", "vector_amd64.go.tmpl", vectorAVX2},
	{"avx512_vector_amd64.s", "vector_amd64.s.tmpl", vectorAVX512},
	{"avx512_vector_amd64.go", "vector_amd64.go.tmpl", vectorAVX512},
	{"avx2_weighted_amd64.s", "weighted_amd64.s.tmpl", weightedKernels{
		ISA: "AVX2", Lower: "avx2", Vector: "Y", Elems: 16, OneElems: 32, Sums: 2,
		Stride: "R11", Tokens: "CX", Third: "AX",
	}},
	{"avx512_weighted_amd64.s", "weighted_amd64.s.tmpl", weightedKernels{
		ISA: "AVX512", Lower: "avx512", Wide: true, Vector: "Z", Elems: 64, OneElems: 64, Sums: 4,
		Stride: "R14", Tokens: "DX", Third: "R11",
	}},
	{"neon_elementwise_arm64.s", "elementwise_arm64.s.tmpl", elementwiseKernels},
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
	VNNI      bool   // VPDPWSSD with registers of 256 bits, two pairs of tokens at a time
	Four, One string // the functions for four queries and for one
}

// Elems is how many elements a kernel takes at once, Sums how many registers
// hold a query's sums and Reg their kind.
func (k valuesKernel) Elems() int { return pick(k.Wide, 64, 16) }
func (k valuesKernel) Sums() int  { return pick(k.Wide, 4, 2) }

func (k valuesKernel) Reg() string { return pick(k.Wide, "Z", "Y") }

// Next reports whether the functions prefetch the next block, NextBytes is the size of
// that argument, and Ahead how many bytes narrow kernels of integers prefetch at once.
func (k valuesKernel) Next() bool     { return k.Wide || !k.F8 }
func (k valuesKernel) NextBytes() int { return pick(k.Next(), 8, 0) }
func (k valuesKernel) Ahead() int     { return pick(k.VNNI, 32, 16) }

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

// dequantKernels are the decoders of one instruction set.
type dequantKernels struct {
	ISA, Lower, Vector string
	Wide               bool // registers of 512 bits
	Lanes              int  // float32 numbers in a register
}

// Bytes is the size of a register, HalfBytes that of its elements in 16 bits, and
// Registers counts those that hold n elements.
func (k dequantKernels) Bytes() int     { return 4 * k.Lanes }
func (k dequantKernels) HalfBytes() int { return 2 * k.Lanes }
func (k dequantKernels) Registers(n int) (all []int) {
	for i := range n / k.Lanes {
		all = append(all, i)
	}
	return all
}

// Halves are the formats of 16 bits.
func (dequantKernels) Halves() []halfFormat {
	return []halfFormat{{Name: "BF16", Convert: "VPMOVZXWD", Shift: true}, {Name: "F16", Convert: "VCVTPH2PS"}}
}

type halfFormat struct {
	Name, Convert string
	Shift         bool // the bits are the upper half of a float32
}

// weightedKernels are the weighted sums of float32 rows of one instruction set.
type weightedKernels struct {
	ISA, Lower, Vector    string
	Wide                  bool // registers of 512 bits
	Elems, OneElems       int  // of each of four outputs, and of one
	Sums                  int  // registers of an output
	Stride, Tokens, Third string
}

// Outputs are the registers that point to four outputs.
func (k weightedKernels) Outputs() []string { return []string{"DI", "SI", k.Third, "R10"} }

// elementwiseKernel computes Steps for sixteen elements at a time.
type elementwiseKernel struct {
	Name, Parameters string
	ArgBytes         int
	Load             []string
	InPlace          bool // reads dst
	Second, Third    bool // reads a second vector, and a third one
	Steps            []string
}

var elementwiseKernels = []elementwiseKernel{
	{
		Name: "add", Parameters: "dst, a *float32, n int", ArgBytes: 24, InPlace: true, Second: true,
		Load: []string{"MOVD dst+0(FP), R0", "MOVD a+8(FP), R1", "MOVD n+16(FP), R2"}, Steps: []string{"ADD4"},
	},
	{
		Name: "mulBy", Parameters: "dst, a *float32, n int", ArgBytes: 24, InPlace: true, Second: true,
		Load: []string{"MOVD dst+0(FP), R0", "MOVD a+8(FP), R1", "MOVD n+16(FP), R2"}, Steps: []string{"MUL4"},
	},
	{
		Name: "scale", Parameters: "dst *float32, n int, s float32", ArgBytes: 20, InPlace: true,
		Load:  []string{"MOVD  dst+0(FP), R0", "MOVD  n+8(FP), R2", "MOVWU s+16(FP), R3", "VDUP  R3, V16.S4"},
		Steps: []string{"SCALE4"},
	},
	{
		Name: "norm", Parameters: "dst, x, weight *float32, n int, scale, offset float32", ArgBytes: 40, Second: true,
		Load: []string{
			"MOVD  dst+0(FP), R0", "MOVD  x+8(FP), R4", "MOVD  weight+16(FP), R1", "MOVD  n+24(FP), R2",
			"MOVWU scale+32(FP), R3", "VDUP  R3, V16.S4", "MOVWU offset+36(FP), R3", "VDUP  R3, V17.S4",
		},
		Steps: []string{"SCALE4", "OFFSET4", "MUL4"},
	},
	{
		Name: "addScaled", Parameters: "dst, a *float32, n int, s float32", ArgBytes: 28, InPlace: true, Second: true,
		Load:  []string{"MOVD  dst+0(FP), R0", "MOVD  a+8(FP), R1", "MOVD  n+16(FP), R2", "MOVWU s+24(FP), R3", "VDUP  R3, V16.S4"},
		Steps: []string{"SCALEA4", "ADD4"},
	},
	{
		Name: "addProduct", Parameters: "dst, a, b *float32, n int", ArgBytes: 32, InPlace: true, Second: true, Third: true,
		Load:  []string{"MOVD dst+0(FP), R0", "MOVD a+8(FP), R1", "MOVD b+16(FP), R5", "MOVD n+24(FP), R2"},
		Steps: []string{"THIRD4", "ADD4"},
	},
	{
		Name: "clamp", Parameters: "x *float32, n int, low, high, offset, factor float32", ArgBytes: 32, InPlace: true,
		Load: []string{
			"MOVD  x+0(FP), R0", "MOVD  n+8(FP), R2", "MOVWU low+16(FP), R3", "VDUP  R3, V18.S4", "MOVWU high+20(FP), R3", "VDUP  R3, V19.S4",
			"MOVWU offset+24(FP), R3", "VDUP  R3, V17.S4", "MOVWU factor+28(FP), R3", "VDUP  R3, V16.S4",
		},
		Steps: []string{"LOW4", "HIGH4", "SHIFT4", "SCALE4"},
	},
}

// dotKernels are the dot products of one instruction set.
type dotKernels struct {
	ISA, Lower string
	Wide       bool // registers of 512 bits
	TileTokens int
	TileWord   string // TileTokens in words
	Rows       int    // of a GEMV kernel
	Steps      string // the register that counts steps
}

// vectorKernels are the functions of one instruction set that are built on the
// exponential.
type vectorKernels struct {
	ISA, Lower string
	Wide       bool // registers of 512 bits, which keep constants; others read them from memory
}

// constant is a number of expTable that a register holds.
type constant struct{ Offset, Register int }

// constants lists neighbouring numbers of expTable for registers from first on.
func constants(offset, first, n int) (all []constant) {
	for i := range n {
		all = append(all, constant{offset + 32*i, first + i})
	}
	return all
}

// activation is an activation function, which a macro computes.
type activation struct {
	Name, Macro string
	Cube        bool // of 256 bits: loads the factor of x³
	Constants   []constant
}

// Activations are the functions of two slices.
func (vectorKernels) Activations() []activation {
	return []activation{
		{Name: "silu", Macro: "SILU"},
		{Name: "sigmoid", Macro: "SIGMOID"},
		{Name: "geluTanh", Macro: "GELU", Cube: true, Constants: constants(384, 7, 2)},
		{Name: "geluErf", Macro: "GELU_ERF", Constants: append(constants(736, 7, 9), constants(1024, 30, 2)...)},
	}
}

// CapConstants are those of softCap.
func (vectorKernels) CapConstants() []constant { return constants(480, 8, 8) }

var (
	dequantAVX2   = dequantKernels{ISA: "AVX2", Lower: "avx2", Vector: "Y", Lanes: 8}
	dequantAVX512 = dequantKernels{ISA: "AVX512", Lower: "avx512", Wide: true, Vector: "Z", Lanes: 16}

	dotAVX2 = dotKernels{
		ISA: "AVX2", Lower: "avx2", TileTokens: 2, TileWord: "two", Rows: 4, Steps: "CX",
	}
	dotAVX512 = dotKernels{
		ISA: "AVX512", Lower: "avx512", Wide: true, TileTokens: 4, TileWord: "four", Rows: 8, Steps: "DX",
	}

	vectorAVX2   = vectorKernels{ISA: "AVX2", Lower: "avx2"}
	vectorAVX512 = vectorKernels{ISA: "AVX512", Lower: "avx512", Wide: true}
)

// dequantDecoder is a decoder as Go sees it; dequantCase is a format that it decodes.
type dequantDecoder struct {
	Name, Count string
	Table       bool // takes the values of nibbles
}
type dequantCase struct{ Type, Name, Table string }

// Decoders are the assembly functions.
func (k dequantKernels) Decoders() []dequantDecoder {
	return []dequantDecoder{
		{Name: "BF16", Count: "n"},
		{Name: "F16", Count: "n"},
		{Name: "Q8", Count: "blocks"},
		{Name: pick(k.Wide, "Nibbles", "Q4"), Count: "blocks", Table: k.Wide},
		{Name: "Q4K", Count: "blocks"},
		{Name: "Q5K", Count: "blocks"},
		{Name: "Q6K", Count: "blocks"},
	}
}

// Cases are the formats of blocks that they decode.
func (k dequantKernels) Cases() []dequantCase {
	cases := []dequantCase{{"Q8_0", "Q8", ""}}
	if k.Wide {
		cases = append(cases, dequantCase{"Q4_0", "Nibbles", "q4Values"},
			dequantCase{"IQ4_NL", "Nibbles", "iq4Values"}, dequantCase{"NF4", "Nibbles", "nf4Values"})
	} else {
		cases = append(cases, dequantCase{"Q4_0", "Q4", ""})
	}
	return append(cases, dequantCase{"Q4_K", "Q4K", ""}, dequantCase{"Q5_K", "Q5K", ""}, dequantCase{"Q6_K", "Q6K", ""})
}
