//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// Scores of a block of keys: four tiles at once, so that four bytes of a query,
// which are loaded to all lanes, serve four products. Integer sums begin as the
// bits of 1.5·2²³ (startBits) less what the zero adds.
//
//	DI y         SI codes, four tiles R10 apart   R13 next
//	R8 x         R9 dx        R11 start           DX 4·width
//	CX groups left            R12 the groups
//	Z24-Z27 scales of the keys      Z30 zero      Z31 startFloat

#define LOAD_ARGS \
	MOVQ a+0(FP), AX                  \
	MOVQ first+8(FP), BX              \
	MOVQ scoreArgs_y(AX), DI          \
	MOVQ scoreArgs_codes(AX), SI      \
	MOVQ scoreArgs_next(AX), R13      \
	MOVQ scoreArgs_x(AX), R8          \
	MOVQ scoreArgs_dx(AX), R9         \
	MOVQ scoreArgs_start(AX), R11     \
	MOVQ scoreArgs_groups(AX), CX     \
	MOVQ scoreArgs_width(AX), DX      \
	MOVQ scoreArgs_scales(AX), AX     \
	VMOVUPS (AX), Z24                 \
	VMOVUPS 64(AX), Z25               \
	VMOVUPS 128(AX), Z26              \
	VMOVUPS 192(AX), Z27              \
	SHLQ $2, BX                       \
	ADDQ BX, R9                       \
	ADDQ BX, R11                      \
	SHLQ $3, BX                       \
	ADDQ BX, R8                       \
	SHLQ $3, BX                       \
	ADDQ BX, DI                       \
	SHLQ $2, DX                       \
	MOVQ CX, R10                      \
	SHLQ $9, R10                      \
	LEAQ (SI)(R10*2), R14             \
	MOVQ CX, R12                      \
	VPXORD Z30, Z30, Z30              \
	VPBROADCASTD ·startValue(SB), Z31

// LOAD_KEYS loads a plane of four tiles and asks for half as much of the next
// block. The kernels that follow ask for the rest: a thread that asks for more than
// memory brings meanwhile waits, and memory waits when nobody asks.
#define LOAD_KEYS(at) \
	VMOVDQU32   at(SI), Z16          \
	VMOVDQU32   at(SI)(R10*1), Z17   \
	VMOVDQU32   at(R14), Z18         \
	VMOVDQU32   at(R14)(R10*1), Z19  \
	PREFETCHT1  2*(at)(R13)          \
	PREFETCHT1  2*(at)+64(R13)

#define DOT(x, a, b, c, d) \
	VPDPBUSD x, Z16, a \
	VPDPBUSD x, Z17, b \
	VPDPBUSD x, Z18, c \
	VPDPBUSD x, Z19, d

// Each begins a query's sums, computes them for a plane, and turns them into
// floats.
#define BEGIN(t, a, b, c, d) \
	VPBROADCASTD 4*(t)(R11), a \
	VMOVDQA32    a, b          \
	VMOVDQA32    a, c          \
	VMOVDQA32    a, d

#define PLANE4(plane) \
	LOAD_KEYS(64*(plane))                      \
	VPBROADCASTD 4*(plane)(R8), Z20            \
	VPBROADCASTD 4*(plane)+32(R8), Z21         \
	VPBROADCASTD 4*(plane)+64(R8), Z22         \
	VPBROADCASTD 4*(plane)+96(R8), Z23         \
	DOT(Z20, Z0, Z1, Z2, Z3)                   \
	DOT(Z21, Z4, Z5, Z6, Z7)                   \
	DOT(Z22, Z8, Z9, Z10, Z11)                 \
	DOT(Z23, Z12, Z13, Z14, Z15)

#define PLANE1(plane) \
	LOAD_KEYS(64*(plane))           \
	VPBROADCASTD 4*(plane)(R8), Z20 \
	DOT(Z20, Z0, Z1, Z2, Z3)

#define FLOATS(a, b, c, d) \
	VSUBPS Z31, a, a \
	VSUBPS Z31, b, b \
	VSUBPS Z31, c, c \
	VSUBPS Z31, d, d

// FIRST multiplies the sums of the first group, LATER adds those of the others
// to what is in y, 256·t bytes on.
#define FIRST(t, a, b, c, d) \
	VBROADCASTSS 4*(t)(R9), Z20 \
	VFMADD213PS  Z30, Z20, a    \
	VFMADD213PS  Z30, Z20, b    \
	VFMADD213PS  Z30, Z20, c    \
	VFMADD213PS  Z30, Z20, d

#define LATER(t, a, b, c, d) \
	VBROADCASTSS 4*(t)(R9), Z20             \
	VFMADD213PS  256*(t)(DI), Z20, a        \
	VFMADD213PS  256*(t)+64(DI), Z20, b     \
	VFMADD213PS  256*(t)+128(DI), Z20, c    \
	VFMADD213PS  256*(t)+192(DI), Z20, d

#define SCALE(a, b, c, d) \
	VMULPS Z24, a, a \
	VMULPS Z25, b, b \
	VMULPS Z26, c, c \
	VMULPS Z27, d, d

#define STORE(t, a, b, c, d) \
	VMOVUPS a, 256*(t)(DI)     \
	VMOVUPS b, 256*(t)+64(DI)  \
	VMOVUPS c, 256*(t)+128(DI) \
	VMOVUPS d, 256*(t)+192(DI)

#define NEXT \
	ADDQ $512, SI          \
	ADDQ $512, R14         \
	ADDQ $1024, R13        \
	LEAQ (R8)(DX*8), R8    \
	ADDQ DX, R9            \
	ADDQ DX, R11

// func scores4AVX512(a *scoreArgs, first int)
// Four queries from the first on.
TEXT ·scores4AVX512(SB), NOSPLIT, $0-16
	LOAD_ARGS

group:
	BEGIN(0, Z0, Z1, Z2, Z3)
	BEGIN(1, Z4, Z5, Z6, Z7)
	BEGIN(2, Z8, Z9, Z10, Z11)
	BEGIN(3, Z12, Z13, Z14, Z15)
	PLANE4(0)
	PLANE4(1)
	PLANE4(2)
	PLANE4(3)
	PLANE4(4)
	PLANE4(5)
	PLANE4(6)
	PLANE4(7)
	FLOATS(Z0, Z1, Z2, Z3)
	FLOATS(Z4, Z5, Z6, Z7)
	FLOATS(Z8, Z9, Z10, Z11)
	FLOATS(Z12, Z13, Z14, Z15)
	CMPQ CX, R12
	JNE  later
	FIRST(0, Z0, Z1, Z2, Z3)
	FIRST(1, Z4, Z5, Z6, Z7)
	FIRST(2, Z8, Z9, Z10, Z11)
	FIRST(3, Z12, Z13, Z14, Z15)
	JMP  added

later:
	LATER(0, Z0, Z1, Z2, Z3)
	LATER(1, Z4, Z5, Z6, Z7)
	LATER(2, Z8, Z9, Z10, Z11)
	LATER(3, Z12, Z13, Z14, Z15)

added:
	CMPQ CX, $1
	JNE  store
	SCALE(Z0, Z1, Z2, Z3)
	SCALE(Z4, Z5, Z6, Z7)
	SCALE(Z8, Z9, Z10, Z11)
	SCALE(Z12, Z13, Z14, Z15)

store:
	STORE(0, Z0, Z1, Z2, Z3)
	STORE(1, Z4, Z5, Z6, Z7)
	STORE(2, Z8, Z9, Z10, Z11)
	STORE(3, Z12, Z13, Z14, Z15)
	NEXT
	DECQ CX
	JNZ  group
	VZEROUPPER
	RET

// func scores1AVX512(a *scoreArgs, first int)
// One query.
TEXT ·scores1AVX512(SB), NOSPLIT, $0-16
	LOAD_ARGS

group:
	BEGIN(0, Z0, Z1, Z2, Z3)
	PLANE1(0)
	PLANE1(1)
	PLANE1(2)
	PLANE1(3)
	PLANE1(4)
	PLANE1(5)
	PLANE1(6)
	PLANE1(7)
	FLOATS(Z0, Z1, Z2, Z3)
	CMPQ CX, R12
	JNE  later
	FIRST(0, Z0, Z1, Z2, Z3)
	JMP  added

later:
	LATER(0, Z0, Z1, Z2, Z3)

added:
	CMPQ CX, $1
	JNE  store
	SCALE(Z0, Z1, Z2, Z3)

store:
	STORE(0, Z0, Z1, Z2, Z3)
	NEXT
	DECQ CX
	JNZ  group
	VZEROUPPER
	RET
