// Macros of the small-N GEMM kernels with 256-bit vectors, AVX2 and AVX-VNNI. With i the integer
// sum of a group, the kernels compute
//
//	sums[token][row] = Σ i·scale·d + shift·min     over the groups
//
// for one packed tile of 16 rows and 2, 4, 8 or 16 tokens. They read a tile once from its beginning to
// its end, scales included, so that prefetching keeps up. For each group they iterate over the
// tokens, up to four at once; codes that several iterations need are unpacked once to the panel's
// memory. The float sums stay in memory. Registers are those in avx2_panel_amd64.h, except:
//
//	SI tile   CX blocks left   R15 groups left in a superblock   R14 codes of the panel
//	DX with more tokens than fit into registers: the end of the sums
//	R12 scales, R13 mins or factors, of the group

#include "avx2_scales_amd64.h"

#define SMALL_ARGS \
	MOVQ a+0(FP), AX               \
	MOVQ smallArgs_panel(AX), R14  \
	MOVQ panel_scales(R14), R12    \
	MOVQ panel_mins(R14), R13      \
	MOVQ panel_codes(R14), R14     \
	MOVQ smallArgs_sums(AX), BX    \
	MOVQ smallArgs_tile(AX), SI    \
	MOVQ smallArgs_x(AX), R8       \
	MOVQ smallArgs_dx(AX), R9      \
	MOVQ smallArgs_shift(AX), R10  \
	MOVQ smallArgs_start(AX), R11  \
	MOVQ smallArgs_width(AX), DX   \
	SHLQ $2, DX                    \
	MOVQ BX, DI                    \
	MOVQ DX, CX                    \
	VPXOR Y0, Y0, Y0               \
clear:                             \
	VMOVUPS Y0, (DI)               \
	VMOVUPS Y0, 32(DI)             \
	ADDQ $64, DI                   \
	SUBQ $4, CX                    \
	JNZ  clear                     \
	MOVQ smallArgs_blocks(AX), CX

#define LOAD_TABLE \
	MOVQ smallArgs_table(AX), DI \
	VBROADCASTI128 (DI), Y13

// EIGHT loads planes p and p+4 of 8-bit codes.
#define EIGHT(src, at) \
	VMOVDQU at(src), Y11     \
	VMOVDQU at+32(src), Y12  \
	VMOVDQU at+256(src), Y8  \
	VMOVDQU at+288(src), Y9

// KEEP stores the codes of planes p and p+4.
#define KEEP(p) \
	VMOVDQU Y11, 64*(p)(R14)     \
	VMOVDQU Y12, 64*(p)+32(R14)  \
	VMOVDQU Y8, 64*(p)+256(R14)  \
	VMOVDQU Y9, 64*(p)+288(R14)

// SIGNED_AT is SIGNED_PLANE of codes that begin at offset(SI).
#define SIGNED_AT(offset, p) \
	VPXOR  64*(p)+offset(SI), Y13, Y11     \
	VPXOR  64*(p)+32+offset(SI), Y13, Y12  \
	VPABSB Y11, Y8                         \
	VPABSB Y12, Y9

// STORE_SCALES and STORE_MINS store those of a block with one group.
#define STORE_SCALES \
	VMOVUPS Y8, (R12)   \
	VMOVUPS Y9, 32(R12)

#define STORE_MINS \
	VMOVUPS Y6, (R13)   \
	VMOVUPS Y7, 32(R13)

// SMALL_PAIRS reads the head of a Q4_K or Q5_K block: it stores the scales and mins of its groups.
#define SMALL_PAIRS \
	PREFETCH4(SI)                  \
	MOVQ smallArgs_panel(AX), R15  \
	MOVQ panel_scales(R15), R12    \
	MOVQ panel_mins(R15), R13      \
	PAIRS_LOAD                     \
	PAIRS_GROUP(0)                 \
	PAIRS_GROUP(1)                 \
	PAIRS_GROUP(2)                 \
	PAIRS_GROUP(3)                 \
	ADDQ $256, SI                  \
	MOVQ $8, R15

#define PAIRS_GROUP(g) \
	PAIR_ROWS(16*(g), 64*(g), Y4, Y5, R12, R13)    \
	PAIR_ROWS(16*(g)+8, 64*(g)+32, Y7, Y8, R12, R13)

// SMALL_SIX reads the head of an IQ4_XS block: it stores the scales of its groups.
#define SMALL_SIX \
	PREFETCH2(SI)                  \
	MOVQ smallArgs_panel(AX), R15  \
	MOVQ panel_scales(R15), R12    \
	VMOVDQU Y13, (R14)             \
	SIX_GROUPS(R12)                \
	VMOVDQU (R14), Y13             \
	VMOVDQU ·wordOnes(SB), Y5      \
	ADDQ $128, SI                  \
	MOVQ $8, R15

// SMALL_BYTES reads the head of a Q6_K block: it stores the scale and leaves a pointer to the factors
// of its groups in R13.
#define SMALL_BYTES \
	PREFETCH5(SI)          \
	VCVTPH2PS (SI), Y8     \
	VCVTPH2PS 16(SI), Y9   \
	STORE_SCALES           \
	LEAQ 32(SI), R13       \
	ADDQ $288, SI          \
	MOVQ $8, R15

// UNPACK6 unpacks the 6-bit codes of a group to the panel.
#define UNPACK6 \
	VPBROADCASTD ·nibbleMask(SB), Y15 \
	VPBROADCASTD ·highMask(SB), Y14   \
	SIX_HIGH(0)                       \
	UNPACK_SIX(0, LEFT4)              \
	UNPACK_SIX(64, LEFT2)             \
	UNPACK_SIX(128, THERE)            \
	UNPACK_SIX(192, RIGHT2)           \
	SIX_HIGH(32)                      \
	UNPACK_SIX(32, LEFT4)             \
	UNPACK_SIX(96, LEFT2)             \
	UNPACK_SIX(160, THERE)            \
	UNPACK_SIX(224, RIGHT2)

#define SIX_HIGH(at) \
	VMOVDQU at(SI), Y4    \
	VMOVDQU at+64(SI), Y5

// UNPACK_SIX unpacks a vector of nibbles and adds their high bits. Y4 and Y5 hold the high bits of
// the low and the high nibbles; SHIFT moves the plane's field to bits 4 and 5.
#define UNPACK_SIX(at, SHIFT) \
	VMOVDQU at+128(SI), Y1  \
	VPAND   Y15, Y1, Y0     \
	VPSRLW  $4, Y1, Y1      \
	VPAND   Y15, Y1, Y1     \
	SHIFT(Y4, Y2)           \
	SHIFT(Y5, Y3)           \
	VPAND   Y14, Y2, Y2     \
	VPAND   Y14, Y3, Y3     \
	VPOR    Y2, Y0, Y0      \
	VPOR    Y3, Y1, Y1      \
	VMOVDQU Y0, at(R14)     \
	VMOVDQU Y1, at+256(R14)

#define LEFT4(bits, dst) VPSLLW $4, bits, dst
#define LEFT2(bits, dst) VPSLLW $2, bits, dst
#define THERE(bits, dst) VMOVDQA bits, dst
#define RIGHT2(bits, dst) VPSRLW $2, bits, dst

// PAIR_FACTORS loads the factors of a group, pairs of equal 16-bit integers: Y12 and Y13 of the
// first half, Y14 and Y15 of the second.
#define PAIR_FACTORS \
	PAIR_FACTOR(0, Y12)  \
	PAIR_FACTOR(8, Y13)  \
	PAIR_FACTOR(16, Y14) \
	PAIR_FACTOR(24, Y15)

#define PAIR_FACTOR(at, factor) \
	VPMOVSXBD at(R13), factor              \
	VPSLLD    $16, factor, Y8              \
	VPBLENDW  $0xAA, Y8, factor, factor
