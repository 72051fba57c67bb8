package main

import (
	"fmt"
	"slices"
)

// small256 lists the small-N GEMM kernels of an instruction set of 256 bits.
type small256 struct {
	ISA     string
	VNNI    bool
	Kernels []small256Kernel
}

// small256Kernel reads tiles of one format.
type small256Kernel struct {
	Name, Doc     string
	Head          string   // superblocks: reads a block's head
	Scales        []string // other blocks: stores the scale and the min
	Offset, Bytes int      // of a group's codes, and of the group
	Codes         string   // the macro that unpacks planes p and p+4; empty for 8 bits
	Constant      string   // loaded to Y13 to unpack codes
	Table         bool     // Y13 is the table
	Dots          string   // multiplies two planes; empty for other products
	Sum           string   // finishes the integer sums
	Start         string   // the initial value of the integer sums
	Mins          bool     // a min is added too
	Signed        bool     // signed codes of 8 bits
	Unpacked      bool     // codes of 6 bits, all unpacked to the panel's memory first
}

// Frame is the size of the stack that HALVES needs.
func (k small256Kernel) Frame() int { return pick(k.Unpacked, 256, 0) }

// Together is the largest number of tokens that the kernel multiplies at once.
func (k small256Kernel) Together() int {
	if k.Dots == "APART" || k.Dots == "TABLE_DOTS" { // no registers for more sums
		return 2
	}
	return 4
}

// small256Loop is a kernel's loop over the blocks. Its passes multiply a group with Together tokens each.
type small256Loop struct {
	Width, Together int // tokens; the last loop also takes larger widths
	Passes          []small256Pass
}

// small256Pass is repeated until no token is left, or done once.
type small256Pass struct{ Keeps, Kept, Repeats bool }

// Repeats reports whether the loop takes several widths.
func (l small256Loop) Repeats() bool { return l.Passes[len(l.Passes)-1].Repeats }

// Loops are the kernel's loops. If codes are kept, the first pass of the last loop stores them and the
// others load them.
func (k small256Kernel) Loops() (loops []small256Loop) {
	for n := 2; n <= k.Together(); n *= 2 {
		loops = append(loops, small256Loop{Width: n, Together: n, Passes: []small256Pass{{}}})
	}
	last := small256Loop{Width: 2 * k.Together(), Together: k.Together(), Passes: []small256Pass{{Repeats: true}}}
	if k.Keeps() {
		last.Passes = []small256Pass{{Keeps: true}, {Kept: true, Repeats: true}}
	}
	return append(loops, last)
}

// Keeps reports whether codes are unpacked once for all tokens.
func (k small256Kernel) Keeps() bool { return !k.Signed && !k.Unpacked && k.Codes != "EIGHT" }

// Prefetch is the macro that prefetches a group.
func (k small256Kernel) Prefetch() string { return fmt.Sprintf("PREFETCH%d", (k.Bytes+63)/64) }

// Planes calls the macro that brings planes p and p+4 of a group to registers.
func (k small256Kernel) Planes(p int) string {
	if k.Codes == "FIVE" {
		return fmt.Sprintf("FIVE(SI, %d, %d)", k.Offset, p)
	}
	return fmt.Sprintf("%s(SI, %d)", k.Codes, k.Offset+64*p)
}

var (
	f16Scale = []string{"F16_SCALE(SI)", "STORE_SCALES"}
	f16Pair  = []string{"F16_SCALE(SI)", "F16_OFFSET(SI)", "STORE_SCALES", "STORE_MINS"}
	zeroPair = []string{"F16_SCALE(SI)", "ZERO_MIN(SI)", "STORE_SCALES", "STORE_MINS"}
)

// small256Formats are the kernels that AVX2 and AVX-VNNI have in common.
var small256Formats = []small256Kernel{
	{Name: "Q4", Doc: "Q4_0.", Scales: f16Scale, Offset: 32, Bytes: 288, Codes: "NIBBLES", Dots: "DOTS", Start: "TOKEN_START"},
	{Name: "Q4Min", Doc: "Q4_1.", Scales: f16Pair, Offset: 64, Bytes: 320, Codes: "NIBBLES", Dots: "DOTS", Start: "COMMON_START", Mins: true},
	{Name: "Q4Zero", Doc: "I4Z.", Scales: zeroPair, Offset: 48, Bytes: 304, Codes: "NIBBLES", Dots: "DOTS", Start: "COMMON_START", Mins: true},
	{Name: "Q5", Doc: "Q5_0.", Scales: f16Scale, Offset: 32, Bytes: 352, Codes: "FIVE", Constant: "bitBytes", Dots: "APART", Start: "TOKEN_START"},
	{Name: "Q5Min", Doc: "Q5_1.", Scales: f16Pair, Offset: 64, Bytes: 384, Codes: "FIVE", Constant: "bitBytes", Dots: "APART", Start: "COMMON_START", Mins: true},
	{Name: "Pairs4", Doc: "Q4_K.", Head: "SMALL_PAIRS", Bytes: 256, Codes: "NIBBLES", Dots: "DOTS", Start: "COMMON_START", Mins: true},
	{Name: "Pairs5", Doc: "Q5_K.", Head: "SMALL_PAIRS", Bytes: 320, Codes: "FIVE", Constant: "bitBytes", Dots: "APART", Start: "COMMON_START", Mins: true},
	{
		Name: "Exponent", Doc: "MXFP4.", Scales: []string{"EXPONENT_SCALE(SI)", "STORE_SCALES"}, Offset: 16, Bytes: 272,
		Codes: "LOOKUP", Table: true, Dots: "APART", Start: "TOKEN_START",
	},
}

// smallAVX2 are the kernels with VPMADDUBSW.
var smallAVX2 = slices.Concat(withSums(small256Formats), []small256Kernel{
	{
		Name: "Q4Table", Doc: "IQ4_NL, NF4; it does not read start.", Scales: f16Scale, Offset: 32, Bytes: 288,
		Codes: "LOOKUP", Table: true, Dots: "TABLE_DOTS", Start: "COMMON_START",
	},
	{
		Name: "Six", Doc: "IQ4_XS; it does not read start.", Head: "SMALL_SIX", Bytes: 256,
		Codes: "LOOKUP", Table: true, Dots: "TABLE_DOTS", Start: "COMMON_START",
	},
	{Name: "Q8", Doc: "Q8_0; it does not read start.", Scales: f16Scale, Offset: 32, Bytes: 544, Signed: true, Start: "COMMON_START"},
	{Name: "Bytes6", Doc: "Q6_K; it does not read start.", Head: "SMALL_BYTES", Bytes: 384, Unpacked: true},
})

// smallVNNI are the kernels with VPDPBUSD.
var smallVNNI = slices.Concat(together(small256Formats), []small256Kernel{
	{
		Name: "Q4Table", Doc: "IQ4_NL, NF4.", Scales: f16Scale, Offset: 32, Bytes: 288,
		Codes: "LOOKUP", Table: true, Dots: "DOTS", Start: "TOKEN_START",
	},
	{Name: "Six", Doc: "IQ4_XS.", Head: "SMALL_SIX", Bytes: 256, Codes: "LOOKUP", Table: true, Dots: "DOTS", Start: "TOKEN_START"},
	{Name: "Q8", Doc: "Q8_0.", Scales: f16Scale, Offset: 32, Bytes: 544, Codes: "EIGHT", Dots: "DOTS", Start: "TOKEN_START"},
})

// withSums adds what widens sums of 16 bits.
func withSums(all []small256Kernel) []small256Kernel {
	all = slices.Clone(all)
	for i := range all {
		all[i].Sum = map[string]string{"DOTS": "SUM", "APART": "SUM_APART"}[all[i].Dots]
	}
	return all
}

// together adds the products of codes of any size to the same sums, which have 32 bits.
func together(all []small256Kernel) []small256Kernel {
	all = slices.Clone(all)
	for i := range all {
		all[i].Dots = "DOTS"
	}
	return all
}
