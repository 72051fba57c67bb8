//go:build !noasm

#include "textflag.h"
#include "avx512_amd64.h"

// Matrix products. A zmm accumulator holds the sixteen lanes of one Dot. The
// tail of a row is loaded under the mask K1 and accumulated with merging, so
// that lanes without an element keep every bit, the sign of a zero among them.

// TAILMASK sets K1 to the low count%16 bits; count is destroyed, CX too.
#define TAILMASK(count) \
	ANDQ $15, count \
	TAIL(count)

// FOLD8 computes into a the sum of the halves of a (lower half of the result)
// and of the halves of b (upper half): lane[i] += lane[i+8] for both.
#define FOLD8(a, b) \
	VSHUFF64X2 $0x44, b, a, Z30 \
	VSHUFF64X2 $0xEE, b, a, Z31 \
	VADDPS     Z31, Z30, a

// FOLD4 does lane[i] += lane[i+4] for the four sums in a and b.
#define FOLD4(a, b) \
	VSHUFF32X4 $0x88, b, a, Z30 \
	VSHUFF32X4 $0xDD, b, a, Z31 \
	VADDPS     Z31, Z30, a

// FOLD2 does lane[i] += lane[i+2] for the eight sums in a and b.
#define FOLD2(a, b) \
	VUNPCKLPD b, a, Z30   \
	VUNPCKHPD b, a, Z31   \
	VADDPS    Z31, Z30, a

// FOLD1 does lane[0] += lane[1] for the sixteen sums in a and b.
#define FOLD1(a, b) \
	VSHUFPS $0x88, b, a, Z30 \
	VSHUFPS $0xDD, b, a, Z31 \
	VADDPS  Z31, Z30, a

// One step of a tile: four rows in Z16-Z19, four tokens in Z20-Z23.
// Accumulator Z(t+4r) belongs to row r and token t.
#define TILE_FMA \
	VFMADD231PS Z16, Z20, Z0  \
	VFMADD231PS Z16, Z21, Z1  \
	VFMADD231PS Z16, Z22, Z2  \
	VFMADD231PS Z16, Z23, Z3  \
	VFMADD231PS Z17, Z20, Z4  \
	VFMADD231PS Z17, Z21, Z5  \
	VFMADD231PS Z17, Z22, Z6  \
	VFMADD231PS Z17, Z23, Z7  \
	VFMADD231PS Z18, Z20, Z8  \
	VFMADD231PS Z18, Z21, Z9  \
	VFMADD231PS Z18, Z22, Z10 \
	VFMADD231PS Z18, Z23, Z11 \
	VFMADD231PS Z19, Z20, Z12 \
	VFMADD231PS Z19, Z21, Z13 \
	VFMADD231PS Z19, Z22, Z14 \
	VFMADD231PS Z19, Z23, Z15

#define TILE_FMA_MASKED \
	VFMADD231PS Z16, Z20, K1, Z0  \
	VFMADD231PS Z16, Z21, K1, Z1  \
	VFMADD231PS Z16, Z22, K1, Z2  \
	VFMADD231PS Z16, Z23, K1, Z3  \
	VFMADD231PS Z17, Z20, K1, Z4  \
	VFMADD231PS Z17, Z21, K1, Z5  \
	VFMADD231PS Z17, Z22, K1, Z6  \
	VFMADD231PS Z17, Z23, K1, Z7  \
	VFMADD231PS Z18, Z20, K1, Z8  \
	VFMADD231PS Z18, Z21, K1, Z9  \
	VFMADD231PS Z18, Z22, K1, Z10 \
	VFMADD231PS Z18, Z23, K1, Z11 \
	VFMADD231PS Z19, Z20, K1, Z12 \
	VFMADD231PS Z19, Z21, K1, Z13 \
	VFMADD231PS Z19, Z22, K1, Z14 \
	VFMADD231PS Z19, Z23, K1, Z15

// The matrix-vector kernels: eight rows at once against one token. They differ
// in how sixteen weights are loaded. R8 is row 0, R9 row 4, R10 the stride in
// bytes and R11 three times that, SI the token.
#define VEC8_ENTER(shift) \
	MOVQ out+0(FP), DI          \
	MOVQ w+8(FP), R8            \
	MOVQ wStride+16(FP), R10    \
	MOVQ x+24(FP), SI           \
	MOVQ cols+32(FP), BX        \
	SHLQ $shift, R10            \
	LEAQ (R10)(R10*2), R11      \
	LEAQ (R8)(R10*4), R9        \
	ZERO4(Z0, Z1, Z2, Z3)    \
	ZERO4(Z4, Z5, Z6, Z7)    \
	MOVQ BX, DX                 \
	SHRQ $4, DX

// VEC8_LEAVE adds the lanes. FOLD pairs put two sums side by side in each
// 128-bit block: accumulators are folded in the order that makes these rows
// 0,1 | 2,3 | 4,5 | 6,7, of which the compression drops the copies.
#define VEC8_LEAVE \
	FOLD8(Z0, Z2)  \
	FOLD8(Z4, Z6)  \
	FOLD8(Z1, Z3)  \
	FOLD8(Z5, Z7)  \
	FOLD4(Z0, Z4)  \
	FOLD4(Z1, Z5)  \
	FOLD2(Z0, Z1)  \
	FOLD1(Z0, Z0)  \
	MOVL $0x55, AX \
	KMOVW AX, K2   \
	VCOMPRESSPD Z0, K2, Z0 \
	VMOVUPS Y0, (DI) \
	VZEROUPPER

// func tileAVX512(out *[16]float32, w *float32, wStride int, x *float32, xStride, cols int)
// out[4*t+r] = Dot(w[r], x[t]) for four rows and four tokens; strides in elements.
TEXT ·tileAVX512(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ w+8(FP), R8
	MOVQ wStride+16(FP), R10
	MOVQ x+24(FP), R9
	MOVQ xStride+32(FP), R12
	MOVQ cols+40(FP), BX
	SHLQ $2, R10
	SHLQ $2, R12
	LEAQ (R10)(R10*2), R11
	LEAQ (R12)(R12*2), R13
	ZERO16
	MOVQ BX, DX
	SHRQ $4, DX
	JZ   tail

loop:
	VMOVUPS (R9), Z20
	VMOVUPS (R9)(R12*1), Z21
	VMOVUPS (R9)(R12*2), Z22
	VMOVUPS (R9)(R13*1), Z23
	VMOVUPS (R8), Z16
	VMOVUPS (R8)(R10*1), Z17
	VMOVUPS (R8)(R10*2), Z18
	VMOVUPS (R8)(R11*1), Z19
	TILE_FMA
	ADDQ    $64, R8
	ADDQ    $64, R9
	DECQ    DX
	JNZ     loop

tail:
	TAILMASK(BX)
	JZ        reduce
	VMOVUPS.Z (R9), K1, Z20
	VMOVUPS.Z (R9)(R12*1), K1, Z21
	VMOVUPS.Z (R9)(R12*2), K1, Z22
	VMOVUPS.Z (R9)(R13*1), K1, Z23
	VMOVUPS.Z (R8), K1, Z16
	VMOVUPS.Z (R8)(R10*1), K1, Z17
	VMOVUPS.Z (R8)(R10*2), K1, Z18
	VMOVUPS.Z (R8)(R11*1), K1, Z19
	TILE_FMA_MASKED

reduce:
	FOLD8(Z0, Z1)
	FOLD8(Z2, Z3)
	FOLD8(Z4, Z5)
	FOLD8(Z6, Z7)
	FOLD8(Z8, Z9)
	FOLD8(Z10, Z11)
	FOLD8(Z12, Z13)
	FOLD8(Z14, Z15)
	FOLD4(Z0, Z2)
	FOLD4(Z4, Z6)
	FOLD4(Z8, Z10)
	FOLD4(Z12, Z14)
	FOLD2(Z0, Z4)
	FOLD2(Z8, Z12)
	FOLD1(Z0, Z8)
	VMOVUPS Z0, (DI)
	VZEROUPPER
	RET

// func gemvF32AVX512(out *[8]float32, w *float32, wStride int, x *float32, cols int)
TEXT ·gemvF32AVX512(SB), NOSPLIT, $0-40
	VEC8_ENTER(2)
	JZ tail

loop:
	VMOVUPS     (SI), Z8
	VFMADD231PS (R8), Z8, Z0
	VFMADD231PS (R8)(R10*1), Z8, Z1
	VFMADD231PS (R8)(R10*2), Z8, Z2
	VFMADD231PS (R8)(R11*1), Z8, Z3
	VFMADD231PS (R9), Z8, Z4
	VFMADD231PS (R9)(R10*1), Z8, Z5
	VFMADD231PS (R9)(R10*2), Z8, Z6
	VFMADD231PS (R9)(R11*1), Z8, Z7
	ADDQ        $64, SI
	ADDQ        $64, R8
	ADDQ        $64, R9
	DECQ        DX
	JNZ         loop

tail:
	TAILMASK(BX)
	JZ          done
	VMOVUPS.Z   (SI), K1, Z8
	VFMADD231PS (R8), Z8, K1, Z0
	VFMADD231PS (R8)(R10*1), Z8, K1, Z1
	VFMADD231PS (R8)(R10*2), Z8, K1, Z2
	VFMADD231PS (R8)(R11*1), Z8, K1, Z3
	VFMADD231PS (R9), Z8, K1, Z4
	VFMADD231PS (R9)(R10*1), Z8, K1, Z5
	VFMADD231PS (R9)(R10*2), Z8, K1, Z6
	VFMADD231PS (R9)(R11*1), Z8, K1, Z7

done:
	VEC8_LEAVE
	RET

#define BF16_FMA(mem, acc) \
	VPMOVZXWD   mem, Z9      \
	VPSLLD      $16, Z9, Z9  \
	VFMADD231PS Z9, Z8, acc

#define BF16_FMA_MASKED(mem, acc) \
	VPMOVZXWD.Z mem, K1, Z9     \
	VPSLLD      $16, Z9, Z9     \
	VFMADD231PS Z9, Z8, K1, acc

#define F16_FMA(mem, acc) \
	VCVTPH2PS   mem, Z9      \
	VFMADD231PS Z9, Z8, acc

#define F16_FMA_MASKED(mem, acc) \
	VCVTPH2PS.Z mem, K1, Z9     \
	VFMADD231PS Z9, Z8, K1, acc

#define HALF_STEP(FMA) \
	FMA((R8), Z0)         \
	FMA((R8)(R10*1), Z1)  \
	FMA((R8)(R10*2), Z2)  \
	FMA((R8)(R11*1), Z3)  \
	FMA((R9), Z4)         \
	FMA((R9)(R10*1), Z5)  \
	FMA((R9)(R10*2), Z6)  \
	FMA((R9)(R11*1), Z7)

// func gemvBF16AVX512(out *[8]float32, w *byte, wStride int, x *float32, cols int)
TEXT ·gemvBF16AVX512(SB), NOSPLIT, $0-40
	VEC8_ENTER(1)
	JZ tail

loop:
	VMOVUPS (SI), Z8
	HALF_STEP(BF16_FMA)
	ADDQ    $64, SI
	ADDQ    $32, R8
	ADDQ    $32, R9
	DECQ    DX
	JNZ     loop

tail:
	TAILMASK(BX)
	JZ        done
	VMOVUPS.Z (SI), K1, Z8
	HALF_STEP(BF16_FMA_MASKED)

done:
	VEC8_LEAVE
	RET

// func gemvF16AVX512(out *[8]float32, w *byte, wStride int, x *float32, cols int)
TEXT ·gemvF16AVX512(SB), NOSPLIT, $0-40
	VEC8_ENTER(1)
	JZ tail

loop:
	VMOVUPS (SI), Z8
	HALF_STEP(F16_FMA)
	ADDQ    $64, SI
	ADDQ    $32, R8
	ADDQ    $32, R9
	DECQ    DX
	JNZ     loop

tail:
	TAILMASK(BX)
	JZ        done
	VMOVUPS.Z (SI), K1, Z8
	HALF_STEP(F16_FMA_MASKED)

done:
	VEC8_LEAVE
	RET
