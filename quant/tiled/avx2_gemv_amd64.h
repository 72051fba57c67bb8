// Macros of the GEMV kernels with 256-bit vectors, AVX2 and AVX-VNNI. With i the
// integer sum of a group, the kernels compute
//
//	sums[row] = Σ i·scale·d + shift·min     over the groups
//
// for packed tiles of 16 rows and one token. They unpack codes in registers. A vector
// holds half of a tile's rows. Like the kernels with AVX-512, they alternate between
// the groups of two runs of tiles, because two read streams keep more cache misses
// outstanding than one.
//
//	DI sums   DX tiles left in a run   CX blocks left   R15 args
//	R8 x      R9 dx     R10 shift   R11 start
//	SI, BX codes of the two tiles   Y0, Y1 and Y2, Y3 their sums
//
// Within a group:
//
//	Y4, Y5 sums of planes 0 to 3, at the end of the group    Y6, Y7 of planes 4 to 7
//	Y11, Y12 codes of a plane    Y8, Y9 of the plane four further    Y10 token, scratch
//
// and after it:
//
//	Y4, Y5 integer sums   Y8, Y9 scales   Y6, Y7 mins   Y10, Y11 scratch
//
// Y15 is 0x0F in every byte, Y13 and Y14 are constants of the format.

// AHEAD is the prefetch distance in bytes, as in avx512_gemv_amd64.h. On an AMD EPYC
// (Zen 4), BenchmarkVec read 87 to 98 % of the read bandwidth with PREFETCHT0 and any
// distance from 2048 to 3328, but 59 to 97 % with PREFETCHT1, up and down with the
// distance.
#define AHEAD 2304

#include "avx2_codes_amd64.h"

// TO_BIT4 gives the value 16, which is -16 in Y14 for the top bit, the sign of the tested bit.
#define TO_BIT4 VPSIGNB Y10, Y14, Y10

#define GEMV_ARGS \
	MOVQ a+0(FP), R15               \
	MOVQ smallArgs_sums(R15), DI    \
	MOVQ smallArgs_tile(R15), SI    \
	MOVQ smallArgs_second(R15), BX  \
	MOVQ smallArgs_pairs(R15), DX   \
	MOVQ smallArgs_table(R15), AX   \
	VPBROADCASTD ·nibbleMask(SB), Y15

// GEMV_TILES starts the next tile of each run.
#define GEMV_TILES \
	MOVQ smallArgs_x(R15), R8       \
	MOVQ smallArgs_dx(R15), R9      \
	MOVQ smallArgs_shift(R15), R10  \
	MOVQ smallArgs_start(R15), R11  \
	MOVQ smallArgs_blocks(R15), CX  \
	VPXOR Y0, Y0, Y0              \
	VPXOR Y1, Y1, Y1              \
	VPXOR Y2, Y2, Y2              \
	VPXOR Y3, Y3, Y3

// GEMV_NEXT stores the sums of both tiles and jumps to the label tiles, or returns
// after the last tiles.
#define GEMV_NEXT \
	MOVQ smallArgs_apart(R15), AX \
	VMOVUPS Y0, (DI)            \
	VMOVUPS Y1, 32(DI)          \
	VMOVUPS Y2, (DI)(AX*1)      \
	VMOVUPS Y3, 32(DI)(AX*1)    \
	ADDQ $64, DI                \
	DECQ DX                     \
	JNZ  tiles                  \
	VZEROUPPER                  \
	RET

// NEXT advances to the next group of the token and of both tiles; bytes is the size of
// a group in a tile.
#define NEXT(bytes) \
	ADDQ $32, R8    \
	ADDQ $4, R9     \
	ADDQ $bytes, SI \
	ADDQ $bytes, BX

#define NEXT_START ADDQ $4, R11
#define NEXT_MIN ADDQ $4, R10

// GROUP4, GROUP5 and GROUP_TABLE compute the integer sums of a group whose codes start
// at offset(src), less the start. The headers of AVX2 and AVX-VNNI define DOTS, which
// adds the products of planes p and p+4, FIRST_DOTS, which begins with them, and SUM.
#define GROUP4(src, offset) \
	NIBBLES(src, offset)     \
	FIRST_DOTS(0)            \
	NIBBLES(src, offset+64)  \
	DOTS(1)                  \
	NIBBLES(src, offset+128) \
	DOTS(2)                  \
	NIBBLES(src, offset+192) \
	DOTS(3)                  \
	SUM_NIBBLES

#define GROUP5(src, offset) \
	FIVE(src, offset, 0) \
	FIRST_DOTS(0)        \
	FIVE(src, offset, 1) \
	DOTS(1)              \
	FIVE(src, offset, 2) \
	DOTS(2)              \
	FIVE(src, offset, 3) \
	DOTS(3)              \
	SUM

#define GROUP_TABLE(src, offset) \
	LOOKUP(src, offset)     \
	FIRST_DOTS(0)           \
	LOOKUP(src, offset+64)  \
	DOTS(1)                 \
	LOOKUP(src, offset+128) \
	DOTS(2)                 \
	LOOKUP(src, offset+192) \
	DOTS(3)                 \
	SUM

// START adds the token's start to the integer sums.
#define START \
	VPBROADCASTD (R11), Y10   \
	VPADDD       Y10, Y4, Y4  \
	VPADDD       Y10, Y5, Y5

// END_START computes sums += i·scale·d from integer sums that begin with a start, END from those
// that begin with 0; END_MIN adds shift·min. Adding zero turns a product of -0 into +0.
#define END(sumA, sumB) \
	VCVTDQ2PS    Y4, Y4           \
	VCVTDQ2PS    Y5, Y5           \
	VXORPS       Y10, Y10, Y10    \
	VBROADCASTSS (R9), Y11        \
	VFMADD213PS  Y10, Y8, Y4      \
	VFMADD213PS  Y10, Y9, Y5      \
	VFMADD231PS  Y11, Y4, sumA    \
	VFMADD231PS  Y11, Y5, sumB

#define END_START(sumA, sumB) \
	VBROADCASTSS ·startValue(SB), Y10  \
	VMULPS       Y10, Y8, Y11          \
	VMULPS       Y10, Y9, Y12          \
	VFMSUB213PS  Y11, Y8, Y4           \
	VFMSUB213PS  Y12, Y9, Y5           \
	VBROADCASTSS (R9), Y10             \
	VFMADD231PS  Y10, Y4, sumA         \
	VFMADD231PS  Y10, Y5, sumB

#define END_MIN(sumA, sumB) \
	VBROADCASTSS (R10), Y10     \
	VFMADD231PS  Y10, Y6, sumA  \
	VFMADD231PS  Y10, Y7, sumB
