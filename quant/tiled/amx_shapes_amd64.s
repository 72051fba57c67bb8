//go:build !noasm

// Hand-written: no other instruction set has tile registers.

#include "go_asm.h"
#include "textflag.h"
#include "amx_amd64.h"

// The neighbours of mulPlainAMX, for benchmarks: products of one or two tiles of 16 rows with one or
// two tiles of tokens. Two tiles of either share the loads of the other side, but their float sums do not
// fit into registers and stay in memory. As in mulPlainAMX, the integer sums of a group are
// stored while those of the group before are scaled.
//
//	SI x   AX codes   DI products   R10 scales   R11 dx   R8 sums   R15 groups left
//	BX 64   DX GroupElems   Z16-Z23 scratch   Z28 startFloat·scale   Z30 scale   Z31 startFloat

#define SHAPE_ARGS \
	MOVQ   a+0(FP), R15               \
	MOVQ   kernelArgs_config(R15), AX  \
	LDTILECFG                         \
	MOVQ   kernelArgs_sums(R15), R8   \
	MOVQ   kernelArgs_codes(R15), AX   \
	MOVQ   kernelArgs_scales(R15), R10 \
	MOVQ   kernelArgs_x(R15), SI      \
	MOVQ   kernelArgs_dx(R15), R11    \
	MOVQ   kernelArgs_products(R15), DI \
	MOVQ   kernelArgs_groups(R15), R15 \
	MOVQ   $64, BX                    \
	MOVQ   $const_GroupElems, DX      \
	VPBROADCASTD ·startValue(SB), Z31

// INTEGERS multiplies the tiles of tokens and of codes that are loaded and stores the sums.
#define INTEGERS(sums, tokens, codes, at) \
	TILEZERO(sums)               \
	TDPBSSD(sums, tokens, codes) \
	TILESTORED(sums, at, rDI, rBX)

#define LOAD_TOKENS(t) TILELOADD((4+t), (512*t), rSI, rDX)
#define LOAD_CODES(r) TILELOADD((6+r), (512*r), rAX, rBX)

#define PRODUCT1x1(at) \
	LOAD_TOKENS(0)       \
	LOAD_CODES(0)        \
	INTEGERS(0, 4, 6, at) \
	ADDQ $512, SI        \
	ADDQ $512, AX

#define PRODUCT2x1(at) \
	LOAD_TOKENS(0)              \
	LOAD_CODES(0)               \
	INTEGERS(0, 4, 6, at)        \
	LOAD_CODES(1)               \
	INTEGERS(1, 4, 7, (at+1024)) \
	ADDQ $512, SI               \
	ADDQ $1024, AX

#define PRODUCT1x2(at) \
	LOAD_TOKENS(0)              \
	LOAD_CODES(0)               \
	INTEGERS(0, 4, 6, at)        \
	LOAD_TOKENS(1)              \
	INTEGERS(1, 5, 6, (at+1024)) \
	ADDQ $1024, SI              \
	ADDQ $512, AX

#define PRODUCT2x2(at) \
	LOAD_TOKENS(0)              \
	LOAD_CODES(0)               \
	INTEGERS(0, 4, 6, at)        \
	LOAD_TOKENS(1)              \
	INTEGERS(1, 5, 6, (at+1024)) \
	LOAD_CODES(1)               \
	INTEGERS(2, 4, 7, (at+2048)) \
	INTEGERS(3, 5, 7, (at+3072)) \
	ADDQ $1024, SI              \
	ADDQ $1024, AX

// SCALE_ROWS loads the scales of 16 rows.
#define SCALE_ROWS(r) \
	VMOVUPS (64*r)(R10), Z30 \
	VMULPS  Z31, Z30, Z28

// ROW adds the integer sums of a token in tile k, at+64·i of it, to its float sums; dx is of the token.
#define ROW(at, k, i, dx, temp, sum) \
	VPADDD           (at+1024*k+64*i)(DI), Z31, temp \
	VFMSUB213PS      Z28, Z30, temp                  \
	VMOVUPS          (1024*k+64*i)(R8), sum          \
	VFMADD231PS.BCST (dx+4*i)(R11), temp, sum        \
	VMOVUPS          sum, (1024*k+64*i)(R8)

#define ROWS(at, k, dx) \
	ROW(at, k, 0, dx, Z16, Z20)  ROW(at, k, 1, dx, Z17, Z21)  ROW(at, k, 2, dx, Z18, Z22)  ROW(at, k, 3, dx, Z19, Z23) \
	ROW(at, k, 4, dx, Z16, Z20)  ROW(at, k, 5, dx, Z17, Z21)  ROW(at, k, 6, dx, Z18, Z22)  ROW(at, k, 7, dx, Z19, Z23) \
	ROW(at, k, 8, dx, Z16, Z20)  ROW(at, k, 9, dx, Z17, Z21)  ROW(at, k, 10, dx, Z18, Z22) ROW(at, k, 11, dx, Z19, Z23) \
	ROW(at, k, 12, dx, Z16, Z20) ROW(at, k, 13, dx, Z17, Z21) ROW(at, k, 14, dx, Z18, Z22) ROW(at, k, 15, dx, Z19, Z23)

#define FLOATS1x1(at) \
	SCALE_ROWS(0)  \
	ROWS(at, 0, 0) \
	ADDQ $64, R10  \
	ADDQ $64, R11

#define FLOATS2x1(at) \
	SCALE_ROWS(0)  \
	ROWS(at, 0, 0) \
	SCALE_ROWS(1)  \
	ROWS(at, 1, 0) \
	ADDQ $128, R10 \
	ADDQ $64, R11

#define FLOATS1x2(at) \
	SCALE_ROWS(0)   \
	ROWS(at, 0, 0)  \
	ROWS(at, 1, 64) \
	ADDQ $64, R10   \
	ADDQ $128, R11

#define FLOATS2x2(at) \
	SCALE_ROWS(0)   \
	ROWS(at, 0, 0)  \
	ROWS(at, 1, 64) \
	SCALE_ROWS(1)   \
	ROWS(at, 2, 0)  \
	ROWS(at, 3, 64) \
	ADDQ $128, R10  \
	ADDQ $128, R11

// SHAPE loops over the groups, an even number. The sums of odd groups are at DI+4096.
#define SHAPE(PRODUCT, FLOATS) \
	SHAPE_ARGS    \
	PRODUCT(0)    \
group:                \
	PRODUCT(4096) \
	FLOATS(0)     \
	SUBQ $2, R15  \
	JZ   last     \
	PRODUCT(0)    \
	FLOATS(4096)  \
	JMP  group    \
last:                 \
	FLOATS(4096)  \
	TILERELEASE   \
	VZEROUPPER    \
	RET

// func shape16x16AMX(a *kernelArgs)
TEXT ·shape16x16AMX(SB), NOSPLIT, $0-8
	SHAPE(PRODUCT1x1, FLOATS1x1)

// func shape32x16AMX(a *kernelArgs)
TEXT ·shape32x16AMX(SB), NOSPLIT, $0-8
	SHAPE(PRODUCT2x1, FLOATS2x1)

// func shape16x32AMX(a *kernelArgs)
TEXT ·shape16x32AMX(SB), NOSPLIT, $0-8
	SHAPE(PRODUCT1x2, FLOATS1x2)

// func shape32x32AMX(a *kernelArgs)
TEXT ·shape32x32AMX(SB), NOSPLIT, $0-8
	SHAPE(PRODUCT2x2, FLOATS2x2)
