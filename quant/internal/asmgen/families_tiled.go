package main

import "slices"

// tiledOutputs are the generated files of quant/tiled.
var tiledOutputs = []output{
	{"tiled/avx512_gemv_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "AVX512", Formats: gemvBlocks}},
	{"tiled/avx512_gemvk_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "AVX512", Super: true, Formats: gemvSuperblocks}},
	{"tiled/avx512_gemv_near_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "Near512", Near: true, Formats: gemvBlocks}},
	{"tiled/avx512_gemvk_near_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "Near512", Near: true, Super: true, Formats: gemvSuperblocks}},
	{"tiled/avx2_gemv_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "AVX2", Formats: gemvBlocks}},
	{"tiled/avx2_gemvk_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "AVX2", Super: true, Formats: gemvSuperblocks}},
	{"tiled/avxvnni_gemv_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "VNNI", VNNI: true, Formats: gemvBlocks}},
	{"tiled/avxvnni_gemvk_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "VNNI", VNNI: true, Super: true, Formats: gemvSuperblocks}},
	{"tiled/avx512_small_amd64.s", "small_amd64.s.tmpl", smallFile{ISA: "AVX512", Formats: smallFormats}},
	{"tiled/avx512_small_near_amd64.s", "small_amd64.s.tmpl", smallFile{ISA: "Near512", Near: true, Formats: smallFormats}},
	{"tiled/avx512_decode_amd64.s", "decode_amd64.s.tmpl", decoders},
	{"tiled/avx512_panel_amd64.s", "panel512_amd64.s.tmpl", []panelKernel{
		{Name: "Plain", Prefix: "PLAIN", Products: "PLAIN"},
		{Name: "Mins", Prefix: "MIN", Products: "MIN"},
		{Name: "Halves", Prefix: "HALF", Products: "HALVES", Factors: true},
		{Name: "HalvesSigned", Prefix: "HALF", Products: "SIGNED", Factors: true},
	}},
	{"tiled/avx512_low_amd64.s", "low_amd64.s.tmpl", lowFile{Prefix: "low", Args: "lowArgs"}},
	{"tiled/avx512_lowgemv_amd64.s", "low_amd64.s.tmpl", lowFile{Prefix: "gemv", Args: "smallArgs", GEMV: true}},
	{"tiled/neon_low_arm64.s", "low_arm64.s.tmpl", booksNEON},
	{"tiled/neon_lowcodes_arm64.s", "lowcodes_arm64.s.tmpl", nil},
	{"tiled/avx2_tokens_amd64.h", "tokens256_amd64.h.tmpl", panel256{}},
	{"tiled/avxvnni_tokens_amd64.h", "tokens256_amd64.h.tmpl", panel256{VNNI: true}},
	{"tiled/avx2_panel_amd64.s", "panel256_amd64.s.tmpl", panel256{ISA: "AVX2", Prefix: "mul", Kernels: []panelKernel256{
		{Name: "Plain", Doc: "Formats without a min and with 4-bit codes.", Dots: "DOTS", Sum: "SUM"},
		{Name: "PlainFive", Doc: "Formats without a min and with codes of up to 5 bits.", Dots: "APART", Sum: "SUM_APART"},
		{Name: "Mins", Doc: "Formats with a min and with 4-bit codes.", Dots: "DOTS", Sum: "SUM", Mins: true},
		{Name: "MinsFive", Doc: "Formats with a min and with codes of up to 5 bits.", Dots: "APART", Sum: "SUM_APART", Mins: true},
		{Name: "Signed", Doc: "Codes with zero point 128, which it converts to signed bytes; it does not read start.", Signed: true},
		{Name: "Split", Doc: "Codes with zero point 128 whose magnitudes and signs are apart; it does not read start.", Split: true},
		{Name: "Halves", Doc: "Formats with 6-bit codes and a factor for each half of a group, as pairFactors writes them.", Pairs: true, Halves: true},
	}}},
	{"tiled/avxvnni_amd64.s", "panel256_amd64.s.tmpl", panel256{ISA: "VNNI", VNNI: true, Prefix: "mul", Kernels: []panelKernel256{
		{Name: "Plain", Doc: "Formats without a min.", Dots: "DOTS"},
		{Name: "Mins", Doc: "Formats with a min.", Dots: "DOTS", Mins: true},
		{Name: "Halves", Doc: "Formats with a factor for each half of a group.", Dots: "APART", Halves: true},
	}}},
	{"tiled/avx2_small_amd64.s", "small256_amd64.s.tmpl", small256{ISA: "AVX2", Kernels: smallAVX2}},
	{"tiled/avxvnni_small_amd64.s", "small256_amd64.s.tmpl", small256{ISA: "VNNI", VNNI: true, Kernels: smallVNNI}},
	{"tiled/avx2_decode_amd64.go", "decoders_amd64.go.tmpl", decoderStubs{ISA: "AVX2", Lower: "avx2", Splits: true}},
	{"tiled/avx512_decode_amd64.go", "decoders_amd64.go.tmpl", decoderStubs{ISA: "AVX512", Lower: "avx512"}},
	{"tiled/avx512_keys_amd64.s", "keys_amd64.s.tmpl", keysKernel{Bits: 8, Prefix: "scores", GroupBytes: 512, Steps: []int{0, 1, 2, 3, 4, 5, 6, 7}}},
	{"tiled/avx512_keys4_amd64.s", "keys_amd64.s.tmpl", keysKernel{Bits: 4, Prefix: "keys4x", GroupBytes: 320, Steps: []int{0, 1, 2, 3}}},
	{"tiled/avx2_keys_amd64.s", "keys256_amd64.s.tmpl", panel256{ISA: "AVX2"}},
	{"tiled/avxvnni_keys_amd64.s", "keys256_amd64.s.tmpl", panel256{ISA: "VNNI", VNNI: true}},
	{"tiled/avx2_quantize_amd64.s", "quantize_amd64.s.tmpl", quantizeKernel{
		ISA: "AVX2", Vector: "Y", Magnitude: "Y15", Largest: "X14", ByteOnes: "Y13",
		Max: 4, Temp: 5, Dividend: 5, Divisor: 6, Registers: []int{0, 1, 2, 3},
	}},
	{"tiled/avx512_quantize_amd64.s", "quantize_amd64.s.tmpl", quantizeKernel{
		ISA: "AVX512", Wide: true, Vector: "Z", Magnitude: "Z31", Largest: "X30", ByteOnes: "Y29",
		Max: 2, Temp: 3, Dividend: 4, Divisor: 5, Registers: []int{0, 1},
	}},
}

// lowFile are the kernels of low-bit formats: decoders or GEMV kernels.
type lowFile struct {
	Prefix, Args string
	GEMV         bool
}

// gemvFile lists formats with the same kind of block, for an instruction set.
type gemvFile struct {
	ISA     string
	VNNI    bool // of 256 bits: multiplies with VPDPBUSD
	Near    bool // of 512 bits: prefetches to the first-level cache
	Super   bool // blocks of 256 elements
	High    bool // high planes
	Formats []gemvFormat
}

// gemvFormat is a GEMV kernel that reads blocks of one format. Instruction sets have
// macros of the same names in their headers.
type gemvFormat struct {
	Name, Types string
	Frame       int      // bytes of stack
	Constants   []string // loaded once with AVX-512
	Heads       string   // superblocks: reads the heads of both runs' blocks
	Pairs       bool     // superblocks: scales come with mins
	Prefetch    string
	Scales      []string // the scale and min of a group
	Start       string   // the initial value of the integer sums
	Codes       string   // the kind of codes, a part of macros' names
	Offset      int      // of a group's codes
	Wide        bool     // signed codes of 8 bits: VPMADDUBSW multiplies their magnitudes
	Min         bool     // a min is added too
	Next        string   // goes to the token's next start or shift
	Bytes       int      // of a group, with the head of a block that has one group
}

const (
	loadTable = "VBROADCASTI32X4 (AX), Z29"
	loadHigh  = "VPBROADCASTD ·highMask(SB), Z28"
	loadFifth = "VPBROADCASTD ·fifthBit(SB), Z27"
	loadSix   = "VPBROADCASTD ·sixMask(SB), Z27"
)

var gemvBlocks = []gemvFormat{
	{
		Name: "Q4", Types: "Q4_0", Bytes: 288, Next: "NEXT_START", Prefetch: "PREFETCH5",
		Scales: []string{"F16_SCALE(src)"}, Start: "START", Codes: "4", Offset: 32,
	},
	{
		Name: "Q4Table", Types: "IQ4_NL, NF4", Bytes: 288, Next: "NEXT_START", Constants: []string{loadTable}, Prefetch: "PREFETCH5",
		Scales: []string{"F16_SCALE(src)"}, Start: "START", Codes: "_TABLE", Offset: 32, Wide: true,
	},
	{
		Name: "Exponent", Types: "MXFP4", Bytes: 272, Next: "NEXT_START", Constants: []string{loadTable}, Prefetch: "PREFETCH5",
		Scales: []string{"EXPONENT_SCALE(src)"}, Start: "START", Codes: "_TABLE", Offset: 16,
	},
	{
		Name: "Q4Min", Types: "Q4_1", Bytes: 320, Next: "NEXT_MIN", Min: true, Prefetch: "PREFETCH5",
		Scales: []string{"F16_SCALE(src)", "F16_OFFSET(src)"}, Start: "BEGIN", Codes: "4", Offset: 64,
	},
	{
		Name: "Q4Zero", Types: "I4Z", Bytes: 304, Next: "NEXT_MIN", Min: true, Prefetch: "PREFETCH5",
		Scales: []string{"F16_SCALE(src)", "ZERO_MIN(src)"}, Start: "BEGIN", Codes: "4", Offset: 48,
	},
	{
		Name: "Q5", Types: "Q5_0", Bytes: 352, Next: "NEXT_START", Constants: []string{loadFifth}, Prefetch: "PREFETCH6",
		Scales: []string{"F16_SCALE(src)"}, Start: "START", Codes: "5", Offset: 32,
	},
	{
		Name: "Q5Min", Types: "Q5_1", Bytes: 384, Next: "NEXT_MIN", Min: true, Constants: []string{loadFifth}, Prefetch: "PREFETCH6",
		Scales: []string{"F16_SCALE(src)", "F16_OFFSET(src)"}, Start: "BEGIN", Codes: "5", Offset: 64,
	},
	{
		Name: "Q8", Types: "Q8_0", Bytes: 544, Next: "NEXT_START", Prefetch: "PREFETCH9",
		Scales: []string{"F16_SCALE(src)"}, Start: "START", Codes: "8", Offset: 32, Wide: true,
	},
}

var gemvSuperblocks = []gemvFormat{
	{
		Name: "Pairs4", Types: "Q4_K", Frame: 512, Bytes: 256, Next: "NEXT_MIN", Min: true, Pairs: true,
		Heads: "PAIR_HEADS", Constants: []string{loadHigh}, Prefetch: "PREFETCH4",
		Scales: []string{"PAIR_SCALE(factors, scale, min)"}, Start: "BEGIN", Codes: "4",
	},
	{
		Name: "Pairs5", Types: "Q5_K", Frame: 512, Bytes: 320, Next: "NEXT_MIN", Min: true, Pairs: true,
		Heads: "PAIR_HEADS", Constants: []string{loadHigh, loadFifth}, Prefetch: "PREFETCH5",
		Scales: []string{"PAIR_SCALE(factors, scale, min)"}, Start: "BEGIN", Codes: "5",
	},
	{
		Name: "Six", Types: "IQ4_XS", Frame: 256, Bytes: 256, Next: "NEXT_START",
		Heads: "SIX_HEADS", Constants: []string{loadTable, loadHigh}, Prefetch: "PREFETCH4",
		Scales: []string{"SIX_SCALE(factors, scale, Z24)"}, Start: "START", Codes: "_TABLE", Wide: true,
	},
	// GROUP_Bytes6 is in the templates: its halves have factors.
	{
		Name: "Bytes6", Types: "Q6_K", Bytes: 384, Next: "NEXT_HALVES",
		Heads: "BYTE_HEADS", Constants: []string{loadSix, "VPXORD Z3, Z3, Z3"},
	},
}

// smallFormat is a small-N GEMM kernel that reads blocks of one format.
type smallFormat struct {
	Name, Types        string
	Frame              int    // bytes of stack
	Mask               string // loaded once to Z13
	Table              bool   // Z13 is the table
	HeadPrefetch, Head string // superblocks: reads a block's head
	Prefetch           string
	Scales             string // the scales of a group
	Codes              string // the codes of a group
	Products           string // the prefix of the macro that multiplies them
	Next               string // goes to the tokens' next starts or shifts
	Bytes              int    // of a group's codes
}

// smallFile lists the formats of small-N kernels. Near ones prefetch to the first-level cache.
type smallFile struct {
	ISA     string
	Near    bool
	Formats []smallFormat
}

var smallFormats = []smallFormat{
	{
		Name: "Q4", Types: "Q4_0", Prefetch: "PREFETCH5", Scales: "BLOCK_SCALE", Codes: "CODES4(32)",
		Products: "PLAIN", Next: "NEXT_START", Bytes: 288,
	},
	{
		Name: "Q8", Types: "Q8_0", Prefetch: "PREFETCH9", Scales: "BLOCK_SCALE", Codes: "CODES8",
		Products: "PLAIN", Next: "NEXT_START", Bytes: 512,
	},
	{
		Name: "Q6", Types: "Q6_K", Mask: "sixMask", HeadPrefetch: "PREFETCH5", Head: "HALF_HEAD",
		Prefetch: "PREFETCH6", Scales: "HALF_FACTORS", Codes: "CODES6", Products: "HALVES", Next: "NEXT_HALVES", Bytes: 384,
	},
	{
		Name: "Pairs4", Types: "Q4_K", Frame: 256, HeadPrefetch: "PREFETCH4", Head: "PAIR_HEAD",
		Prefetch: "PREFETCH4", Scales: "PAIR_SCALE", Codes: "CODES4(0)", Products: "MIN", Next: "NEXT_MIN", Bytes: 256,
	},
	{
		Name: "Pairs5", Types: "Q5_K", Frame: 256, Mask: "fifthBit", HeadPrefetch: "PREFETCH4", Head: "PAIR_HEAD",
		Prefetch: "PREFETCH5", Scales: "PAIR_SCALE", Codes: "CODES5(0)", Products: "MIN", Next: "NEXT_MIN", Bytes: 320,
	},
	{
		Name: "Q4Table", Types: "IQ4_NL, NF4", Table: true, Prefetch: "PREFETCH5", Scales: "BLOCK_SCALE", Codes: "TABLE_CODES(32)",
		Products: "PLAIN", Next: "NEXT_START", Bytes: 288,
	},
	{
		Name: "Exponent", Types: "MXFP4", Table: true, Prefetch: "PREFETCH5", Scales: "EXPONENT_BLOCK", Codes: "TABLE_CODES(16)",
		Products: "PLAIN", Next: "NEXT_START", Bytes: 272,
	},
	{
		Name: "Six", Types: "IQ4_XS", Frame: 128, Table: true, HeadPrefetch: "PREFETCH2", Head: "SIX_HEAD",
		Prefetch: "PREFETCH4", Scales: "SIX_GROUP", Codes: "TABLE_CODES(0)", Products: "PLAIN", Next: "NEXT_START", Bytes: 256,
	},
	{
		Name: "Q4Min", Types: "Q4_1", Prefetch: "PREFETCH5", Scales: "BLOCK_PAIR", Codes: "CODES4(64)",
		Products: "MIN", Next: "NEXT_MIN", Bytes: 320,
	},
	{
		Name: "Q4Zero", Types: "I4Z", Prefetch: "PREFETCH5", Scales: "ZERO_PAIR", Codes: "CODES4(48)",
		Products: "MIN", Next: "NEXT_MIN", Bytes: 304,
	},
	{
		Name: "Q5", Types: "Q5_0", Mask: "fifthBit", Prefetch: "PREFETCH6", Scales: "BLOCK_SCALE", Codes: "CODES5(32)",
		Products: "PLAIN", Next: "NEXT_START", Bytes: 352,
	},
	{
		Name: "Q5Min", Types: "Q5_1", Mask: "fifthBit", Prefetch: "PREFETCH6", Scales: "BLOCK_PAIR", Codes: "CODES5(64)",
		Products: "MIN", Next: "NEXT_MIN", Bytes: 384,
	},
}

// decoder brings codes of some bits to one byte each.
type decoder struct {
	Bits    int
	Table   bool   // codes are looked up
	Nibbles bool   // needs the constants of nibbles
	Mask    string // loaded to Z27
	Steps   []string
}

// Planes are the registers that a group's codes end in.
func (decoder) Planes() []int { return []int{0, 1, 2, 3, 4, 5, 6, 7} }

var decoders = []decoder{
	{Bits: 4, Table: true, Nibbles: true, Steps: []string{
		"UNPACK((SI), Z0, Z4)", "UNPACK(64(SI), Z1, Z5)", "UNPACK(128(SI), Z2, Z6)", "UNPACK(192(SI), Z3, Z7)",
		"LOOKUP(Z0, Z4)", "LOOKUP(Z1, Z5)", "LOOKUP(Z2, Z6)", "LOOKUP(Z3, Z7)",
	}},
	{Bits: 5, Nibbles: true, Mask: "fifthBit", Steps: []string{
		"UNPACK(64(SI), Z0, Z4)", "UNPACK(128(SI), Z1, Z5)", "UNPACK(192(SI), Z2, Z6)", "UNPACK(256(SI), Z3, Z7)",
		"FIFTH((SI), Z0)", "FIFTH(8(SI), Z1)", "FIFTH(16(SI), Z2)", "FIFTH(24(SI), Z3)",
		"FIFTH(32(SI), Z4)", "FIFTH(40(SI), Z5)", "FIFTH(48(SI), Z6)", "FIFTH(56(SI), Z7)",
	}},
	{Bits: 6, Nibbles: true, Mask: "sixMask", Steps: []string{
		"VMOVDQU32 (SI), Z10", "VMOVDQU32 64(SI), Z14",
		"HIGH6(Z10, Z8, Z9, Z11)", "HIGH6(Z14, Z12, Z13, Z15)",
		"UNPACK6(128(SI), Z0, Z4, Z8, Z12)", "UNPACK6(192(SI), Z1, Z5, Z9, Z13)",
		"UNPACK6(256(SI), Z2, Z6, Z10, Z14)", "UNPACK6(320(SI), Z3, Z7, Z11, Z15)",
	}},
	{Bits: 8, Steps: []string{
		"VMOVDQU32 (SI), Z0", "VMOVDQU32 64(SI), Z1", "VMOVDQU32 128(SI), Z2", "VMOVDQU32 192(SI), Z3",
		"VMOVDQU32 256(SI), Z4", "VMOVDQU32 320(SI), Z5", "VMOVDQU32 384(SI), Z6", "VMOVDQU32 448(SI), Z7",
	}},
}

// panelKernel is an AVX-512 GEMM kernel of a panel, named by its macros.
type panelKernel struct {
	Name, Prefix, Products string
	Factors                bool // halves of a group have factors
}

// panel256 lists the GEMM kernels of a panel for an instruction set of 256 bits.
type panel256 struct {
	ISA     string
	VNNI    bool
	Prefix  string // of the functions' names
	Kernels []panelKernel256
}

type panelKernel256 struct {
	Name, Doc            string
	Dots                 string // multiplies two planes; empty for other products
	Sum                  string // finishes the integer sums
	Mins, Signed, Halves bool
	Split                bool // multiplies magnitudes and signs
	Pairs                bool // factors are pairs of 16-bit integers
}

// Tokens are the numbers of tokens that a kernel multiplies at once.
func (k panelKernel256) Tokens() []int {
	tokens := []int{4, 2, 1}
	if k.Dots == "APART" { // two sums per row
		tokens = tokens[1:]
	}
	return tokens
}

// Fewest is the smallest of Tokens.
func (k panelKernel256) Fewest() int { return slices.Min(k.Tokens()) }

// Takes reports whether n is one of Tokens.
func (k panelKernel256) Takes(n int) bool { return slices.Contains(k.Tokens(), n) }

// keysKernel computes the scores of keys.
type keysKernel struct {
	Bits       int
	Prefix     string // of the functions' names
	GroupBytes int    // from a group of a tile to the next
	Steps      []int  // vectors of codes in a group
}

// Four selects the parts of the template for 4-bit keys.
func (k keysKernel) Four() bool { return k.Bits == 4 }

// quantizeKernel quantizes activations. Its numbers are those of registers.
type quantizeKernel struct {
	ISA                          string
	Wide                         bool // registers of 512 bits
	Vector                       string
	Magnitude, Largest, ByteOnes string
	Max, Temp, Dividend, Divisor int
	Registers                    []int // that hold a group
}

// decoderStubs declare the decoders of an instruction set.
type decoderStubs struct {
	ISA, Lower string
	Splits     bool // the path's decode does more
}
