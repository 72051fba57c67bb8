//go:build !noasm

#include "go_asm.h"
#include "textflag.h"

// Scores of a block of 4-bit keys: four tiles at once, so that four bytes of a
// query, which are loaded to all lanes, serve four products. A group of a tile
// is 16 scales and 16 offsets of binary16 and four vectors of codes.
//
//	DI y         SI keys, four tiles R10 apart     R13 next - keys
//	R8 x         R9 dx        R11 shift            DX 4·width
//	CX groups left            R12 the groups
//	Z28 15 in every byte      Z30 startFloat       Z31 startBits

#define LOAD_ARGS \
	MOVQ a+0(FP), AX                  \
	MOVQ first+8(FP), BX              \
	MOVQ scoreArgs_y(AX), DI          \
	MOVQ scoreArgs_codes(AX), SI      \
	MOVQ scoreArgs_next(AX), R13      \
	MOVQ scoreArgs_x(AX), R8          \
	MOVQ scoreArgs_dx(AX), R9         \
	MOVQ scoreArgs_shift(AX), R11     \
	MOVQ scoreArgs_groups(AX), CX     \
	MOVQ scoreArgs_width(AX), DX      \
	SUBQ SI, R13                      \
	SHLQ $2, BX                       \
	ADDQ BX, R9                       \
	ADDQ BX, R11                      \
	SHLQ $3, BX                       \
	ADDQ BX, R8                       \
	SHLQ $3, BX                       \
	ADDQ BX, DI                       \
	SHLQ $2, DX                       \
	IMUL3Q $320, CX, R10              \
	LEAQ (SI)(R10*2), R14             \
	MOVQ CX, R12                      \
	MOVL $0x0f0f0f0f, AX              \
	VPBROADCASTD AX, Z28              \
	VPBROADCASTD ·startValue(SB), Z30 \
	VMOVDQA32 Z30, Z31

// LOAD_KEYS loads vector v of four tiles, the lower halves to Z16-Z19 and the
// upper to Z20-Z23, and asks for those of the next block.
#define LOAD_KEYS(v) \
	VMOVDQU32  64*(v)+64(SI), Z16         \
	VMOVDQU32  64*(v)+64(SI)(R10*1), Z17  \
	VMOVDQU32  64*(v)+64(R14), Z18        \
	VMOVDQU32  64*(v)+64(R14)(R10*1), Z19 \
	LEAQ       (SI)(R13*1), AX            \
	LEAQ       (R14)(R13*1), BX           \
	PREFETCHT0 64*(v)+64(AX)              \
	PREFETCHT0 64*(v)+64(AX)(R10*1)       \
	PREFETCHT0 64*(v)+64(BX)              \
	PREFETCHT0 64*(v)+64(BX)(R10*1)       \
	VPSRLW     $4, Z16, Z20               \
	VPSRLW     $4, Z17, Z21               \
	VPSRLW     $4, Z18, Z22               \
	VPSRLW     $4, Z19, Z23               \
	VPANDD     Z28, Z16, Z16              \
	VPANDD     Z28, Z17, Z17              \
	VPANDD     Z28, Z18, Z18              \
	VPANDD     Z28, Z19, Z19              \
	VPANDD     Z28, Z20, Z20              \
	VPANDD     Z28, Z21, Z21              \
	VPANDD     Z28, Z22, Z22              \
	VPANDD     Z28, Z23, Z23

// DOT adds the products of vector v with query t to the query's sums.
#define DOT(v, t, a, b, c, d) \
	VPBROADCASTD 4*(v)+32*(t)(R8), Z24    \
	VPBROADCASTD 4*(v)+32*(t)+16(R8), Z25 \
	VPDPBUSD     Z24, Z16, a              \
	VPDPBUSD     Z24, Z17, b              \
	VPDPBUSD     Z24, Z18, c              \
	VPDPBUSD     Z24, Z19, d              \
	VPDPBUSD     Z25, Z20, a              \
	VPDPBUSD     Z25, Z21, b              \
	VPDPBUSD     Z25, Z22, c              \
	VPDPBUSD     Z25, Z23, d

#define VECTOR4(v) \
	LOAD_KEYS(v)                 \
	DOT(v, 0, Z0, Z1, Z2, Z3)    \
	DOT(v, 1, Z4, Z5, Z6, Z7)    \
	DOT(v, 2, Z8, Z9, Z10, Z11)  \
	DOT(v, 3, Z12, Z13, Z14, Z15)

#define VECTOR1(v) \
	LOAD_KEYS(v)              \
	DOT(v, 0, Z0, Z1, Z2, Z3)

#define BEGIN(a, b, c, d) \
	VMOVDQA32 Z31, a \
	VMOVDQA32 Z31, b \
	VMOVDQA32 Z31, c \
	VMOVDQA32 Z31, d

// LOAD_SCALES loads the group's scales to Z16-Z19 and offsets to Z20-Z23.
#define LOAD_SCALES \
	LEAQ       (SI)(R13*1), AX      \
	LEAQ       (R14)(R13*1), BX     \
	PREFETCHT0 (AX)                 \
	PREFETCHT0 (AX)(R10*1)          \
	PREFETCHT0 (BX)                 \
	PREFETCHT0 (BX)(R10*1)          \
	VCVTPH2PS  (SI), Z16            \
	VCVTPH2PS  (SI)(R10*1), Z17     \
	VCVTPH2PS  (R14), Z18           \
	VCVTPH2PS  (R14)(R10*1), Z19    \
	VCVTPH2PS  32(SI), Z20          \
	VCVTPH2PS  32(SI)(R10*1), Z21   \
	VCVTPH2PS  32(R14), Z22         \
	VCVTPH2PS  32(R14)(R10*1), Z23

// SCALED makes floats of a query's sums, times the scales.
#define SCALED(a, b, c, d) \
	VSUBPS Z30, a, a \
	VSUBPS Z30, b, b \
	VSUBPS Z30, c, c \
	VSUBPS Z30, d, d \
	VMULPS Z16, a, a \
	VMULPS Z17, b, b \
	VMULPS Z18, c, c \
	VMULPS Z19, d, d

// FIRST multiplies those of the first group, LATER adds those of the others to
// what is in y, 256·t bytes on.
#define FIRST(t, a, b, c, d) \
	VBROADCASTSS 4*(t)(R9), Z24 \
	VPXORD       Z25, Z25, Z25  \
	VFMADD213PS  Z25, Z24, a    \
	VFMADD213PS  Z25, Z24, b    \
	VFMADD213PS  Z25, Z24, c    \
	VFMADD213PS  Z25, Z24, d

#define LATER(t, a, b, c, d) \
	VBROADCASTSS 4*(t)(R9), Z24             \
	VFMADD213PS  256*(t)(DI), Z24, a        \
	VFMADD213PS  256*(t)+64(DI), Z24, b     \
	VFMADD213PS  256*(t)+128(DI), Z24, c    \
	VFMADD213PS  256*(t)+192(DI), Z24, d

// STORE adds the offsets; shift is negative.
#define STORE(t, a, b, c, d) \
	VBROADCASTSS 4*(t)(R11), Z24   \
	VFNMADD231PS Z20, Z24, a       \
	VFNMADD231PS Z21, Z24, b       \
	VFNMADD231PS Z22, Z24, c       \
	VFNMADD231PS Z23, Z24, d       \
	VMOVUPS      a, 256*(t)(DI)     \
	VMOVUPS      b, 256*(t)+64(DI)  \
	VMOVUPS      c, 256*(t)+128(DI) \
	VMOVUPS      d, 256*(t)+192(DI)

#define NEXT \
	ADDQ $320, SI          \
	ADDQ $320, R14         \
	LEAQ (R8)(DX*8), R8    \
	ADDQ DX, R9            \
	ADDQ DX, R11

// func keys4x4AVX512(a *scoreArgs, first int)
// Four queries from the first on.
TEXT ·keys4x4AVX512(SB), NOSPLIT, $0-16
	LOAD_ARGS

group:
	BEGIN(Z0, Z1, Z2, Z3)
	BEGIN(Z4, Z5, Z6, Z7)
	BEGIN(Z8, Z9, Z10, Z11)
	BEGIN(Z12, Z13, Z14, Z15)
	VECTOR4(0)
	VECTOR4(1)
	VECTOR4(2)
	VECTOR4(3)
	LOAD_SCALES
	SCALED(Z0, Z1, Z2, Z3)
	SCALED(Z4, Z5, Z6, Z7)
	SCALED(Z8, Z9, Z10, Z11)
	SCALED(Z12, Z13, Z14, Z15)
	CMPQ CX, R12
	JNE  later
	FIRST(0, Z0, Z1, Z2, Z3)
	FIRST(1, Z4, Z5, Z6, Z7)
	FIRST(2, Z8, Z9, Z10, Z11)
	FIRST(3, Z12, Z13, Z14, Z15)
	JMP  store

later:
	LATER(0, Z0, Z1, Z2, Z3)
	LATER(1, Z4, Z5, Z6, Z7)
	LATER(2, Z8, Z9, Z10, Z11)
	LATER(3, Z12, Z13, Z14, Z15)

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

// func keys4x1AVX512(a *scoreArgs, first int)
// One query.
TEXT ·keys4x1AVX512(SB), NOSPLIT, $0-16
	LOAD_ARGS

group:
	BEGIN(Z0, Z1, Z2, Z3)
	VECTOR1(0)
	VECTOR1(1)
	VECTOR1(2)
	VECTOR1(3)
	LOAD_SCALES
	SCALED(Z0, Z1, Z2, Z3)
	CMPQ CX, R12
	JNE  later
	FIRST(0, Z0, Z1, Z2, Z3)
	JMP  store

later:
	LATER(0, Z0, Z1, Z2, Z3)

store:
	STORE(0, Z0, Z1, Z2, Z3)
	NEXT
	DECQ CX
	JNZ  group
	VZEROUPPER
	RET
