//go:build !noasm

#include "textflag.h"
#include "avx2_amd64.h"

// Matrix products. Two ymm accumulators hold the sixteen lanes of one Dot, the
// even-numbered one the lower eight. The tail of a row is loaded with zeros
// beyond its end; there the other factor is made -0, because adding a product
// of -0 changes no lane, not even the sign of a zero.

// HALF_MASK loads the mask for eight lanes to Y12 and sets Y13 to -0 where it
// is unset.
#define HALF_MASK(offset) \
	VMOVUPS  offset(DX), Y12   \
	VPCMPEQD Y13, Y13, Y13     \
	VPXOR    Y12, Y13, Y13     \
	VPSLLD   $31, Y13, Y13

// REDUCE4 adds the lanes of the four sums in Y0,Y1 | Y2,Y3 | Y4,Y5 | Y6,Y7 by
// the tree of the contract, leaving the results in X0.
#define REDUCE4 \
	VADDPS       Y1, Y0, Y0        \
	VADDPS       Y3, Y2, Y2        \
	VADDPS       Y5, Y4, Y4        \
	VADDPS       Y7, Y6, Y6        \
	VPERM2F128   $0x20, Y2, Y0, Y8 \
	VPERM2F128   $0x31, Y2, Y0, Y9 \
	VADDPS       Y9, Y8, Y0        \
	VPERM2F128   $0x20, Y6, Y4, Y8 \
	VPERM2F128   $0x31, Y6, Y4, Y9 \
	VADDPS       Y9, Y8, Y4        \
	VUNPCKLPD    Y4, Y0, Y8        \
	VUNPCKHPD    Y4, Y0, Y9        \
	VADDPS       Y9, Y8, Y0        \
	VSHUFPS      $0x88, Y0, Y0, Y8 \
	VSHUFPS      $0xDD, Y0, Y0, Y9 \
	VADDPS       Y9, Y8, Y0        \
	VEXTRACTF128 $1, Y0, X1        \
	VUNPCKLPS    X1, X0, X0

// TILE_FMA is one step of a tile: the rows' lower and upper halves in Y8, Y12
// and Y9, Y13, the tokens' in Y10, Y14 and Y11, Y15.
#define TILE_FMA \
	VFMADD231PS Y8, Y10, Y0  \
	VFMADD231PS Y12, Y14, Y1 \
	VFMADD231PS Y9, Y10, Y2  \
	VFMADD231PS Y13, Y14, Y3 \
	VFMADD231PS Y8, Y11, Y4  \
	VFMADD231PS Y12, Y15, Y5 \
	VFMADD231PS Y9, Y11, Y6  \
	VFMADD231PS Y13, Y15, Y7

// TILE_TAIL accumulates eight lanes of the tail at the given offset.
#define TILE_TAIL(offset, a, b, c, d) \
	HALF_MASK(offset)                         \
	VMASKMOVPS  offset(R8), Y12, Y8           \
	VMASKMOVPS  offset(R8)(R10*1), Y12, Y9    \
	VMASKMOVPS  offset(R9), Y12, Y10          \
	VMASKMOVPS  offset(R9)(R12*1), Y12, Y11   \
	VORPS       Y13, Y10, Y10                 \
	VORPS       Y13, Y11, Y11                 \
	VFMADD231PS Y8, Y10, a                    \
	VFMADD231PS Y9, Y10, b                    \
	VFMADD231PS Y8, Y11, c                    \
	VFMADD231PS Y9, Y11, d

// The matrix-vector kernels: four rows at R8 with stride R10 (R11 is three
// times that) against the token at SI.
#define VEC4_ENTER(shift) \
	MOVQ out+0(FP), DI       \
	MOVQ w+8(FP), R8         \
	MOVQ wStride+16(FP), R10 \
	MOVQ x+24(FP), SI        \
	MOVQ cols+32(FP), BX     \
	SHLQ $shift, R10         \
	LEAQ (R10)(R10*2), R11   \
	ZERO8                    \
	MOVQ BX, CX              \
	SHRQ $4, CX

#define BF16_FMA(low, high, a, b) \
	VPMOVZXWD   low, Y10       \
	VPMOVZXWD   high, Y11      \
	VPSLLD      $16, Y10, Y10  \
	VPSLLD      $16, Y11, Y11  \
	VFMADD231PS Y10, Y8, a     \
	VFMADD231PS Y11, Y9, b

#define F16_FMA(low, high, a, b) \
	VCVTPH2PS   low, Y10   \
	VCVTPH2PS   high, Y11  \
	VFMADD231PS Y10, Y8, a \
	VFMADD231PS Y11, Y9, b

#define HALF_STEP(FMA) \
	VMOVUPS (SI), Y8                             \
	VMOVUPS 32(SI), Y9                           \
	FMA((R8), 16(R8), Y0, Y1)                    \
	FMA((R8)(R10*1), 16(R8)(R10*1), Y2, Y3)      \
	FMA((R8)(R10*2), 16(R8)(R10*2), Y4, Y5)      \
	FMA((R8)(R11*1), 16(R8)(R11*1), Y6, Y7)      \
	ADDQ    $64, SI                              \
	ADDQ    $32, R8

// VEC_TAIL accumulates eight lanes of the tail at the given offset.
#define VEC_TAIL(offset, a, b, c, d) \
	HALF_MASK(offset)                       \
	VMASKMOVPS  offset(SI), Y12, Y8         \
	VORPS       Y13, Y8, Y8                 \
	VMASKMOVPS  offset(R8), Y12, Y9         \
	VMASKMOVPS  offset(R8)(R10*1), Y12, Y10 \
	VFMADD231PS Y9, Y8, a                   \
	VFMADD231PS Y10, Y8, b                  \
	VMASKMOVPS  offset(R8)(R10*2), Y12, Y9  \
	VMASKMOVPS  offset(R8)(R11*1), Y12, Y10 \
	VFMADD231PS Y9, Y8, c                   \
	VFMADD231PS Y10, Y8, d

#define VEC4_LEAVE \
	REDUCE4           \
	VMOVUPS X0, (DI)  \
	VZEROUPPER

// func tileAVX2(out *[4]float32, w *float32, wStride int, x *float32, xStride, cols int)
// out[2*t+r] = Dot(w[r], x[t]) for two rows and two tokens; strides in elements.
TEXT ·tileAVX2(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ w+8(FP), R8
	MOVQ wStride+16(FP), R10
	MOVQ x+24(FP), R9
	MOVQ xStride+32(FP), R12
	MOVQ cols+40(FP), BX
	SHLQ $2, R10
	SHLQ $2, R12
	ZERO8
	MOVQ BX, CX
	SHRQ $4, CX
	JZ   tail

loop:
	VMOVUPS (R8), Y8
	VMOVUPS 32(R8), Y12
	VMOVUPS (R8)(R10*1), Y9
	VMOVUPS 32(R8)(R10*1), Y13
	VMOVUPS (R9), Y10
	VMOVUPS 32(R9), Y14
	VMOVUPS (R9)(R12*1), Y11
	VMOVUPS 32(R9)(R12*1), Y15
	TILE_FMA
	ADDQ    $64, R8
	ADDQ    $64, R9
	DECQ    CX
	JNZ     loop

tail:
	ANDQ $15, BX
	JZ   reduce
	TAIL_TABLE(BX)
	TILE_TAIL(0, Y0, Y2, Y4, Y6)
	TILE_TAIL(32, Y1, Y3, Y5, Y7)

reduce:
	REDUCE4
	VMOVUPS X0, (DI)
	VZEROUPPER
	RET

// func gemvF32AVX2(out *[4]float32, w *float32, wStride int, x *float32, cols int)
TEXT ·gemvF32AVX2(SB), NOSPLIT, $0-40
	VEC4_ENTER(2)
	JZ tail

loop:
	VMOVUPS     (SI), Y8
	VMOVUPS     32(SI), Y9
	VFMADD231PS (R8), Y8, Y0
	VFMADD231PS 32(R8), Y9, Y1
	VFMADD231PS (R8)(R10*1), Y8, Y2
	VFMADD231PS 32(R8)(R10*1), Y9, Y3
	VFMADD231PS (R8)(R10*2), Y8, Y4
	VFMADD231PS 32(R8)(R10*2), Y9, Y5
	VFMADD231PS (R8)(R11*1), Y8, Y6
	VFMADD231PS 32(R8)(R11*1), Y9, Y7
	ADDQ        $64, SI
	ADDQ        $64, R8
	DECQ        CX
	JNZ         loop

tail:
	ANDQ $15, BX
	JZ   done
	TAIL_TABLE(BX)
	VEC_TAIL(0, Y0, Y2, Y4, Y6)
	VEC_TAIL(32, Y1, Y3, Y5, Y7)

done:
	VEC4_LEAVE
	RET

// func gemvBF16AVX2(out *[4]float32, w *byte, wStride int, x *float32, cols int)
// cols is a positive multiple of 16.
TEXT ·gemvBF16AVX2(SB), NOSPLIT, $0-40
	VEC4_ENTER(1)

loop:
	HALF_STEP(BF16_FMA)
	DECQ CX
	JNZ  loop
	VEC4_LEAVE
	RET

// func gemvF16AVX2(out *[4]float32, w *byte, wStride int, x *float32, cols int)
// cols is a positive multiple of 16.
TEXT ·gemvF16AVX2(SB), NOSPLIT, $0-40
	VEC4_ENTER(1)

loop:
	HALF_STEP(F16_FMA)
	DECQ CX
	JNZ  loop
	VEC4_LEAVE
	RET
