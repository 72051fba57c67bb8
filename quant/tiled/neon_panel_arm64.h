// Macros of the NEON GEMM kernels. With i the integer sum of a group, the kernels
// compute
//
//	sums[token][row] += Σ i·scale·d + shift·min     over the groups
//
// for a part of a centred panel's rows and of a tile's tokens. Registers:
//
//	R1 codes   R2 sums   R3 scales   R4 mins or nil   R5 x   R6 dx   R7 shift
//	R8 groups left   R9 bytes of dx in a group   R10 bytes of x in a group
//	R15 factors
//
// In formats with half groups, i is factor0·i0 + factor1·i1, computed in float32. It is
// an integer below 2²⁴, which float32 represents exactly.

// PANEL_ARGS loads the arguments (a *kernelArgs, row, token int). 1<<rowShift is the
// number of bytes of a row in a plane of the codes.
#define PANEL_ARGS(rowShift) \
	MOVD a+0(FP), R0               \
	MOVD row+8(FP), R11            \
	MOVD token+16(FP), R12         \
	MOVD kernelArgs_codes(R0), R1  \
	MOVD kernelArgs_sums(R0), R2   \
	MOVD kernelArgs_scales(R0), R3 \
	MOVD kernelArgs_mins(R0), R4   \
	MOVD kernelArgs_x(R0), R5      \
	MOVD kernelArgs_dx(R0), R6     \
	MOVD kernelArgs_shift(R0), R7  \
	MOVD kernelArgs_groups(R0), R8 \
	MOVD kernelArgs_width(R0), R9  \
	ADD  R11<<rowShift, R1         \
	ADD  R11<<2, R2                \
	ADD  R12<<6, R2                \
	ADD  R11<<2, R3                \
	MOVD kernelArgs_factors(R0), R15 \
	ADD  R11<<2, R15               \
	ADD  R11<<2, R4, R13           \
	CMP  $0, R4                    \
	CSEL NE, R13, R4, R4           \
	ADD  R12<<5, R5                \
	ADD  R12<<2, R6                \
	ADD  R12<<2, R7                \
	LSL  $5, R9, R10               \
	LSL  $2, R9

// FOUR_TOKENS prepares R10 for LOAD_TOKENS, which loads a group of four tokens: two
// interleaved tokens to a to d and the other two to e to h.
#define FOUR_TOKENS SUB $64, R10

#define LOAD_TOKENS(a, b, c, d, e, f, g, h) \
	VLD1.P 64(R5), [a.B16, b.B16, c.B16, d.B16] \
	VLD1.P (R5)(R10), [e.B16, f.B16, g.B16, h.B16]

// LOAD_SUMS loads the float sums of 8 rows and four tokens; STORE_SUMS stores them.
#define LOAD_SUMS(a, b, c, d, e, f, g, h) \
	FLDPQ (R2), (a, b)    \
	FLDPQ 64(R2), (c, d)  \
	FLDPQ 128(R2), (e, f) \
	FLDPQ 192(R2), (g, h)

#define STORE_SUMS(a, b, c, d, e, f, g, h) \
	FSTPQ (a, b), (R2)    \
	FSTPQ (c, d), 64(R2)  \
	FSTPQ (e, f), 128(R2) \
	FSTPQ (g, h), 192(R2)

#define ZERO_SUMS \
	ZERO4(V8, V9, V10, V11) \
	ZERO4(V12, V13, V14, V15)

// DOT adds the products of a plane of 8 rows, lo and hi, with four elements of four
// tokens to the integer sums V8-V15. x and y hold two interleaved tokens each; i is 0
// for the first four of their eight elements and 1 for the others.
#define DOT(lo, hi, i, x, y) \
	SDOT(x, i, lo, 8)    \
	SDOT(x, i, hi, 9)    \
	SDOT(x, i+2, lo, 10) \
	SDOT(x, i+2, hi, 11) \
	SDOT(y, i, lo, 12)   \
	SDOT(y, i, hi, 13)   \
	SDOT(y, i+2, lo, 14) \
	SDOT(y, i+2, hi, 15)
