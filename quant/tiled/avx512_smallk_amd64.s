//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx512_panel_amd64.h"
#include "avx512_small_amd64.h"
#include "avx512_amd64.h"

// Few-token kernels of the formats whose groups have a scale and a min, six bits
// each, of which a block has the units.

// PAIR_HEAD spreads the scales of a block. The registers it wants and destroys
// are those of codes and integer sums, which are not in use between groups.
#define PAIR_HEAD \
	LEAQ         bytes-256(SP), R12 \
	VMOVDQA32    Z14, Z30           \
	VPBROADCASTD ·highMask(SB), Z28 \
	PAIRS_BY(SI, R12, Z16, Z17, Z18, Z19, Z20, Z21) \
	VCVTPH2PS    (SI), Z12          \
	VCVTPH2PS    32(SI), Z11        \
	ADDQ         $256, SI           \
	MOVQ         $8, BX

#define PAIR_SCALE \
	VPMOVZXBD (R12), Z24     \
	VPMOVZXBD 128(R12), Z26  \
	VCVTDQ2PS Z24, Z24       \
	VCVTDQ2PS Z26, Z26       \
	VMULPS    Z12, Z24, Z24  \
	VMULPS    Z11, Z26, Z26  \
	VMULPS    Z31, Z24, Z25  \
	ADDQ      $16, R12

#define FEW_PAIRS(loop, group, FETCHES, CODES, bytes, WIDTH, PRODUCTS, STORE) \
loop:                     \
	FETCH4            \
	PAIR_HEAD         \
group:                    \
	FETCHES           \
	PAIR_SCALE        \
	CODES             \
	WIDTH(PRODUCTS)   \
	NEXT_GROUP(bytes) \
	ADDQ DX, R10      \
	DECQ BX           \
	JNZ  group        \
	DECQ CX           \
	JNZ  loop         \
	WIDTH(STORE)      \
	FEW_RETURN

// func smallPairs4AVX512(a *smallArgs): Q4_K
TEXT ·smallPairs4AVX512(SB), NOSPLIT, $256-8
	FEW_ARGS
	FEW_WIDTH
	FEW_PAIRS(loop2, group2, FETCH4, CODES4(0), 256, WIDTH2, MIN2, STORE2)

width4:
	FEW_PAIRS(loop4, group4, FETCH4, CODES4(0), 256, WIDTH4, MIN4, STORE4)

width8:
	FEW_PAIRS(loop8, group8, FETCH4, CODES4(0), 256, WIDTH8, MIN4, STORE4)

// FIFTH_BITS adds the fifth bit of codes, of which mem has one a byte.
#define FIFTH_BITS(mem, codes) \
	KMOVQ  mem, K1 \
	VPADDB Z13, codes, K1, codes

#define CODES5 \
	CODES4(64)                \
	FIFTH_BITS((SI), Z16)     \
	FIFTH_BITS(8(SI), Z17)    \
	FIFTH_BITS(16(SI), Z18)   \
	FIFTH_BITS(24(SI), Z19)   \
	FIFTH_BITS(32(SI), Z20)   \
	FIFTH_BITS(40(SI), Z21)   \
	FIFTH_BITS(48(SI), Z22)   \
	FIFTH_BITS(56(SI), Z23)

// func smallPairs5AVX512(a *smallArgs): Q5_K
TEXT ·smallPairs5AVX512(SB), NOSPLIT, $256-8
	FEW_ARGS
	VPBROADCASTD ·fifthBit(SB), Z13
	FEW_WIDTH
	FEW_PAIRS(loop2, group2, FETCH5, CODES5, 320, WIDTH2, MIN2, STORE2)

width4:
	FEW_PAIRS(loop4, group4, FETCH5, CODES5, 320, WIDTH4, MIN4, STORE4)

width8:
	FEW_PAIRS(loop8, group8, FETCH5, CODES5, 320, WIDTH8, MIN4, STORE4)
