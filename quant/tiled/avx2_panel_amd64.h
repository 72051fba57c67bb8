// Macros of the GEMM kernels with 256-bit vectors, AVX2 and AVX-VNNI. With i the
// integer sum of a group, the kernels compute
//
//	sums[token][row] += Σ i·scale·d + shift·min     over the groups
//
// for one tile of width tokens and 16 rows. For each group, they iterate over the
// tokens, up to four at once: 16 rows of four tokens take eight registers of sums, and
// each load of codes then serves four tokens and each load of a token 16 rows. The
// float sums stay in memory.
//
//	AX args   BX sums   DI sums of the current tokens   R15 4·tokens left
//	SI codes  R12 scales   R13 mins or factors   CX groups left
//	R8 x      R9 dx        R10 shift   R11 start   DX 4·width
//
// The codes of small-N kernels are packed, and R14 is the number of groups left in the
// block.

#define LOAD_ARGS \
	MOVQ a+0(FP), AX                \
	MOVQ kernelArgs_sums(AX), BX    \
	MOVQ kernelArgs_codes(AX), SI   \
	MOVQ kernelArgs_scales(AX), R12 \
	MOVQ kernelArgs_mins(AX), R13   \
	MOVQ kernelArgs_x(AX), R8       \
	MOVQ kernelArgs_dx(AX), R9      \
	MOVQ kernelArgs_shift(AX), R10  \
	MOVQ kernelArgs_start(AX), R11  \
	MOVQ kernelArgs_groups(AX), CX  \
	MOVQ kernelArgs_width(AX), DX   \
	SHLQ $2, DX

#define FIRST_TOKEN \
	MOVQ BX, DI  \
	MOVQ DX, R15

#define NEXT_GROUP(bytes) \
	ADDQ $bytes, SI \
	ADDQ $64, R12 \
	ADDQ $64, R13

// PLANES loads planes p and p+4 of a group, SIGNED_PLANE the signed codes of plane p,
// less the zero point of 128 in Y13, and their magnitudes.
#define PLANES(p) \
	VMOVDQU 64*(p)(SI), Y11     \
	VMOVDQU 64*(p)+32(SI), Y12  \
	VMOVDQU 64*(p)+256(SI), Y8  \
	VMOVDQU 64*(p)+288(SI), Y9

#define SIGNED_PLANE(p) \
	VPXOR  64*(p)(SI), Y13, Y11     \
	VPXOR  64*(p)+32(SI), Y13, Y12  \
	VPABSB Y11, Y8                  \
	VPABSB Y12, Y9

// SPLIT_PLANE loads the magnitudes and the signs of plane p.
#define SPLIT_PLANE(p) \
	VMOVDQU 64*(p)(SI), Y8       \
	VMOVDQU 64*(p)+32(SI), Y9    \
	VMOVDQU 64*(p)+512(SI), Y11  \
	VMOVDQU 64*(p)+544(SI), Y12
