//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx512_panel_amd64.h"
#include "avx512_small_amd64.h"

// SHIFTED has the bits of both vectors of high bits where they belong.
#define SHIFTED(OP, n) \
	OP n, Z8, Z10 \
	OP n, Z9, Z11

#define PLANES6(offset, low, high, bitsA, bitsB) \
	VMOVDQU32  offset(SI), low         \
	VPSRLW     $4, low, high           \
	VPTERNLOGD $0xE4, Z14, bitsA, low  \
	VPTERNLOGD $0xE4, Z14, bitsB, high \
	VPANDD     Z13, low, low           \
	VPANDD     Z13, high, high

#define CODES6 \
	VMOVDQU32 (SI), Z8   \
	VMOVDQU32 64(SI), Z9 \
	SHIFTED(VPSLLW, $4)                 \
	PLANES6(128, Z16, Z20, Z10, Z11)    \
	SHIFTED(VPSLLW, $2)                 \
	PLANES6(192, Z17, Z21, Z10, Z11)    \
	PLANES6(256, Z18, Z22, Z8, Z9)      \
	SHIFTED(VPSRLW, $2)                 \
	PLANES6(320, Z19, Z23, Z10, Z11)

#define F16_SCALE \
	VCVTPH2PS (SI), Z24     \
	VMULPS    Z31, Z24, Z25

// FEW4 and the like are the loop over blocks for one width.
#define FEW4(loop, WIDTH, PRODUCTS, STORE) \
loop:                     \
	FETCH5            \
	F16_SCALE         \
	CODES4(32)        \
	WIDTH(PRODUCTS)   \
	NEXT_GROUP(288)   \
	ADDQ DX, R11      \
	DECQ CX           \
	JNZ  loop         \
	WIDTH(STORE)      \
	FEW_RETURN

// func smallQ4AVX512(a *smallArgs): Q4_0
TEXT ·smallQ4AVX512(SB), NOSPLIT, $0-8
	FEW_ARGS
	FEW_WIDTH
	FEW4(loop2, WIDTH2, PLAIN2, STORE2)

width4:
	FEW4(loop4, WIDTH4, PLAIN4, STORE4)

width8:
	FEW4(loop8, WIDTH8, PLAIN4, STORE4)

#define FEW8(loop, WIDTH, PRODUCTS, STORE) \
loop:                                       \
	FETCH9                              \
	F16_SCALE                           \
	ADDQ $32, SI                        \
	LOAD_CODES                          \
	WIDTH(PRODUCTS)                     \
	NEXT_GROUP(512)                     \
	ADDQ DX, R11                        \
	DECQ CX                             \
	JNZ  loop                           \
	WIDTH(STORE)                        \
	FEW_RETURN

// func smallQ8AVX512(a *smallArgs): Q8_0
TEXT ·smallQ8AVX512(SB), NOSPLIT, $0-8
	FEW_ARGS
	FEW_WIDTH
	FEW8(loop2, WIDTH2, PLAIN2, STORE2)

width4:
	FEW8(loop4, WIDTH4, PLAIN4, STORE4)

width8:
	FEW8(loop8, WIDTH8, PLAIN4, STORE4)

#define HALF_SCALE Z12

#define FACTOR(mem, factor, product) \
	VPMOVSXBD   mem, factor                      \
	VCVTDQ2PS   factor, factor                   \
	VMULPS.BCST ·startValue(SB), factor, product

#define FEW6(loop, group, WIDTH, PRODUCTS, STORE) \
loop:                                   \
	FETCH5                          \
	VCVTPH2PS (SI), Z12             \
	LEAQ 32(SI), R12                \
	ADDQ $288, SI                   \
	MOVQ $8, BX                     \
group:                                  \
	FETCH6                          \
	FACTOR((R12), Z24, Z25)         \
	FACTOR(16(R12), Z26, Z31)       \
	CODES6                          \
	WIDTH(PRODUCTS)                 \
	NEXT_GROUP(384)                 \
	LEAQ (R11)(DX*2), R11           \
	ADDQ $32, R12                   \
	DECQ BX                         \
	JNZ  group                      \
	DECQ CX                         \
	JNZ  loop                       \
	WIDTH(STORE)                    \
	FEW_RETURN

// func smallQ6AVX512(a *smallArgs): Q6_K
TEXT ·smallQ6AVX512(SB), NOSPLIT, $0-8
	FEW_ARGS
	VPBROADCASTD ·sixMask(SB), Z13
	FEW_WIDTH
	FEW6(loop2, group2, WIDTH2, HALVES2, STORE2)

width4:
	FEW6(loop4, group4, WIDTH4, HALVES4, STORE4)

width8:
	FEW6(loop8, group8, WIDTH8, HALVES4, STORE4)
