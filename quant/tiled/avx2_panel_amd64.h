// Macros of the GEMM kernels with 256-bit vectors, AVX2 and AVX-VNNI. With i the
// integer sum of a group, the kernels compute
//
//	sums[token][row] += Σ i·scale·d + shift·min     over the groups
//
// for one tile of width tokens and 16 rows. For each group, they keep the codes of 8
// rows in Y0-Y7 and iterate over the tokens, then do the same with the other 8 rows.
// The float sums stay in memory.
//
//	AX args   BX byte offset of the 8 rows in a plane and in scales: 0 or 32
//	SI codes  R12 scales   R13 mins    CX groups left   R15 4·tokens left
//	R8 x      R9 dx        R10 shift   R11 start   DI sums   DX 4·width
//	Y8 scale  Y9 startFloat·scale      Y10 sum     Y11, Y12 scratch
//	Y13 min
//
// In formats with half groups, R13 points to the factors, Y8 is the first factor, Y9
// is 0 and Y15 is startFloat. factor0·i0 + factor1·i1 is an integer below 2²⁴, which
// float32 represents exactly. Adding Y9 turns a product of -0 into +0.

#define LOAD_ARGS \
	MOVQ a+0(FP), AX                \
	MOVQ kernelArgs_codes(AX), SI   \
	MOVQ kernelArgs_scales(AX), R12 \
	MOVQ kernelArgs_mins(AX), R13   \
	MOVQ kernelArgs_x(AX), R8       \
	MOVQ kernelArgs_dx(AX), R9      \
	MOVQ kernelArgs_shift(AX), R10  \
	MOVQ kernelArgs_start(AX), R11  \
	MOVQ kernelArgs_groups(AX), CX  \
	MOVQ kernelArgs_width(AX), DX   \
	SHLQ $2, DX                     \
	XORL BX, BX

// FIRST_TOKEN loads the codes of 8 rows and goes to the first token.
#define FIRST_TOKEN \
	VMOVDQU (SI)(BX*1), Y0          \
	VMOVDQU 64(SI)(BX*1), Y1        \
	VMOVDQU 128(SI)(BX*1), Y2       \
	VMOVDQU 192(SI)(BX*1), Y3       \
	VMOVDQU 256(SI)(BX*1), Y4       \
	VMOVDQU 320(SI)(BX*1), Y5       \
	VMOVDQU 384(SI)(BX*1), Y6       \
	VMOVDQU 448(SI)(BX*1), Y7       \
	MOVQ    kernelArgs_sums(AX), DI \
	ADDQ    BX, DI                  \
	MOVQ    DX, R15

// NEXT_TOKEN stores the sums of a token and goes to the next token. It sets the zero
// flag after the last one.
#define NEXT_TOKEN \
	VMOVUPS Y10, (DI) \
	ADDQ $32, R8      \
	ADDQ $4, R9       \
	ADDQ $4, R10      \
	ADDQ $4, R11      \
	ADDQ $64, DI      \
	SUBQ $4, R15

// NEXT_HALF jumps to half for the second 8 rows, or to the label next after them.
#define NEXT_HALF(half) \
	XORQ $32, BX   \
	JZ   next      \
	MOVQ DX, R15   \
	SHLQ $3, R15   \
	SUBQ R15, R8   \
	SUBQ DX, R9    \
	SUBQ DX, R10   \
	SUBQ DX, R11   \
	JMP  half

#define NEXT_GROUP \
	ADDQ $512, SI \
	ADDQ $64, R12 \
	ADDQ $64, R13

#define SCALE(mem, scale, product) \
	VMOVUPS      mem, scale               \
	VBROADCASTSS ·startValue(SB), product \
	VMULPS       product, scale, product

// FLOAT computes Y10 = i·scale. ADD computes Y10 = Y10·d + sums, and ADD_MIN adds
// shift·min.
#define FLOAT(scale, product) VFMSUB213PS product, scale, Y10

#define ADD \
	VBROADCASTSS (R9), Y12       \
	VFMADD213PS  (DI), Y12, Y10

// FACTORS loads the first factor and the constants of ADD_HALVES.
#define FACTORS \
	VMOVUPS      (R13)(BX*1), Y8      \
	VXORPS       Y9, Y9, Y9           \
	VBROADCASTSS ·startValue(SB), Y15

// ADD_HALVES computes Y10 = (factor0·i0 + factor1·i1)·scale·d + sums from the integer
// sums i0 in Y10 and i1 in Y11.
#define ADD_HALVES \
	VSUBPS      Y15, Y10, Y10             \
	VSUBPS      Y15, Y11, Y11             \
	VFMADD213PS Y9, Y8, Y10               \
	VFMADD231PS 64(R13)(BX*1), Y11, Y10   \
	VMULPS      (R12)(BX*1), Y10, Y10     \
	ADD

#define ADD_MIN \
	VBROADCASTSS (R10), Y12     \
	VFMADD231PS  Y13, Y12, Y10
