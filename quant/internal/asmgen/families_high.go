package main

import "slices"

// planeOutputs are the generated files of quant/tiled that read planes.
var planeOutputs = []output{
	{"tiled/avx2_join_amd64.s", "join_amd64.s.tmpl", joinKernels{ISA: "AVX2", Vector: "Y", Width: 32, Joins: planeJoins}},
	{"tiled/avx512_join_amd64.s", "join_amd64.s.tmpl", joinKernels{ISA: "AVX512", Vector: "Z", Width: 64, Joins: planeJoins}},
	{"tiled/neon_join_arm64.s", "join_arm64.s.tmpl", joinKernels{ISA: "NEON", Vector: "V", Width: 16, Joins: planeJoins}},
	{"tiled/avx512_high_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "AVX512", High: true, Formats: highBlocks}},
	{"tiled/avx512_highk_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "AVX512", High: true, Super: true, Formats: highSuperblocks}},
	{"tiled/avx512_high_near_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "Near512", High: true, Near: true, Formats: highBlocks}},
	{"tiled/avx512_highk_near_amd64.s", "gemv_amd64.s.tmpl", gemvFile{ISA: "Near512", High: true, Near: true, Super: true, Formats: highSuperblocks}},
	{"tiled/avx2_high_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "AVX2", High: true, Formats: highBlocks}},
	{"tiled/avx2_highk_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "AVX2", High: true, Super: true, Formats: highSuperblocks}},
	{"tiled/avxvnni_high_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "VNNI", VNNI: true, High: true, Formats: highBlocks}},
	{"tiled/avxvnni_highk_amd64.s", "gemv256_amd64.s.tmpl", gemvFile{ISA: "VNNI", VNNI: true, High: true, Super: true, Formats: highSuperblocks}},
}

// Constants of kernels of high planes: which bits are in pairs, and of formats without a table the bits that the plane
// has and the others of low and high nibbles.
const (
	loadPairBits  = "VPBROADCASTD ·pairBits(SB), Z17"
	loadKeepThree = "VPBROADCASTD ·keepThree(SB), Z14"
	loadKeepTwo   = "VPBROADCASTD ·keepTwo(SB), Z14"
)

var (
	fillThree = []string{loadPairBits, loadKeepThree, "VPXORD Z15, Z15, Z15", "VPBROADCASTD ·onesInBytes(SB), Z16"}
	fillTwo   = []string{loadKeepTwo, "VPBROADCASTD ·onesInBytes(SB), Z15", "VPBROADCASTD ·twosInBytes(SB), Z16"}
)

var highBlocks = []gemvFormat{
	{
		Name: "Three", Types: "Q4_0, IQ4_NL, NF4, 3 of 4 bits", Bytes: 224, Next: "NEXT_START", Constants: []string{loadTable, loadPairBits}, Prefetch: "PREFETCH4",
		Scales: []string{"F16_SCALE(src)"}, Start: "START", Codes: "_THREE", Offset: 32, Wide: true,
	},
	{
		Name: "Two", Types: "Q4_0, IQ4_NL, NF4, 2 of 4 bits", Bytes: 160, Next: "NEXT_START", Constants: []string{loadTable}, Prefetch: "PREFETCH3",
		Scales: []string{"F16_SCALE(src)"}, Start: "START", Codes: "_TWO", Offset: 32, Wide: true,
	},
	{
		Name: "MinThree", Types: "Q4_1, 3 of 4 bits", Bytes: 256, Next: "NEXT_MIN", Min: true, Constants: fillThree, Prefetch: "PREFETCH4",
		Scales: []string{"F16_SCALE(src)", "F16_OFFSET(src)"}, Start: "BEGIN", Codes: "4_THREE", Offset: 64,
	},
	{
		Name: "MinTwo", Types: "Q4_1, 2 of 4 bits", Bytes: 192, Next: "NEXT_MIN", Min: true, Constants: fillTwo, Prefetch: "PREFETCH3",
		Scales: []string{"F16_SCALE(src)", "F16_OFFSET(src)"}, Start: "BEGIN", Codes: "4_TWO", Offset: 64,
	},
}

var highSuperblocks = []gemvFormat{
	{
		Name: "PairsThree", Types: "Q4_K, 3 of 4 bits", Frame: 512, Bytes: 192, Next: "NEXT_MIN", Min: true, Pairs: true,
		Heads: "PAIR_HEADS", Constants: slices.Concat([]string{loadHigh}, fillThree), Prefetch: "PREFETCH3",
		Scales: []string{"PAIR_SCALE(factors, scale, min)"}, Start: "BEGIN", Codes: "4_THREE",
	},
	{
		Name: "PairsTwo", Types: "Q4_K, 2 of 4 bits", Frame: 512, Bytes: 128, Next: "NEXT_MIN", Min: true, Pairs: true,
		Heads: "PAIR_HEADS", Constants: slices.Concat([]string{loadHigh}, fillTwo), Prefetch: "PREFETCH3",
		Scales: []string{"PAIR_SCALE(factors, scale, min)"}, Start: "BEGIN", Codes: "4_TWO",
	},
}

// LooksUp reports whether the kernel reads the values of codes from a table.
func (f gemvFormat) LooksUp() bool {
	return f.Codes == "_TABLE" || f.Codes == "_THREE" || f.Codes == "_TWO"
}
