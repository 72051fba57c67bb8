// Macros of the kernels for four tokens, which unpack codes in registers. They compute the sums
// of 8 rows, then of the other 8:
//
//	R4 codes   R13 sums   R12 halves left, or the place of rows   R5 x   R6 dx   R8 start
//	R9 bytes from the second pair of tokens to the next group
//	R16 bytes from a group to the next in dx and start   R10 tile blocks or groups left
//
//	V0-V7 float sums, two registers per token   V8-V15 integer sums
//	V16-V23 tokens, as in mulDotNEON            V24-V27 codes, then scales and dx
//	V28 a constant   V31 startBits

// FOUR_WIDTH sets R9 and R16.
#define FOUR_WIDTH \
	MOVD neonGEMV_width(R11), R16 \
	LSL  $5, R16, R9              \
	SUB  $64, R9                  \
	LSL  $2, R16

#define LOAD_FOUR \
	VLD1.P 64(R5), [V16.B16, V17.B16, V18.B16, V19.B16] \
	VLD1.P (R5)(R9), [V20.B16, V21.B16, V22.B16, V23.B16]

#define STORE_ROWS \
	FSTPQ (F0, F1), (R13)    \
	FSTPQ (F2, F3), 64(R13)  \
	FSTPQ (F4, F5), 128(R13) \
	FSTPQ (F6, F7), 192(R13)

// NIBBLES4 multiplies planes p and p+4 of 4-bit codes with two pairs of tokens each.
#define NIBBLES4(at, i, x, y, highX, highY) \
	FLDPQ at(R4), (F26, F27)          \
	VAND  V28.B16, V26.B16, V24.B16   \
	VAND  V28.B16, V27.B16, V25.B16   \
	VUSHR $4, V26.B16, V26.B16        \
	VUSHR $4, V27.B16, V27.B16        \
	DOT(24, 25, i, x, y)              \
	DOT(26, 27, i, highX, highY)
