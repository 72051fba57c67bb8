//go:build !noasm

// Hand-written: no other instruction set has these kernels: AVX-512 uses them too.

#include "textflag.h"

// Quantization of keys and values: code[i] = round(x[i]·inverse), halves to even, for
// n elements, a multiple of 16. The avx512 path uses these 256-bit kernels too,
// because a head has only a few hundred bytes.

// func largestBits16(x *float32, n int) uint32
// Returns the greatest magnitude of n elements as bits: max(bits(x[i]) & 0x7fffffff).
TEXT ·largestBits16(SB), NOSPLIT, $0-20
	MOVQ     x+0(FP), SI
	MOVQ     n+8(FP), CX
	VPCMPEQD Y4, Y4, Y4
	VPSRLD   $1, Y4, Y4
	VPXOR    Y0, Y0, Y0
	VPXOR    Y1, Y1, Y1

loop:
	VPAND   (SI), Y4, Y2
	VPAND   32(SI), Y4, Y3
	VPMAXUD Y2, Y0, Y0
	VPMAXUD Y3, Y1, Y1
	ADDQ    $64, SI
	SUBQ    $16, CX
	JNE     loop

	VPMAXUD      Y1, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0x4E, X0, X1
	VPMAXUD      X1, X0, X0
	VPSHUFD      $0xB1, X0, X1
	VPMAXUD      X1, X0, X0
	VMOVD        X0, AX
	MOVL         AX, ret+16(FP)
	VZEROUPPER
	RET

// CODES16 rounds 16 elements at SI times Y5 to signed bytes in X0.
#define CODES16 \
	VMULPS       (SI), Y5, Y0   \
	VMULPS       32(SI), Y5, Y1 \
	VCVTPS2DQ    Y0, Y0         \
	VCVTPS2DQ    Y1, Y1         \
	VPACKSSDW    Y1, Y0, Y0     \
	VPERMQ       $0xD8, Y0, Y0  \
	VEXTRACTI128 $1, Y0, X1     \
	VPACKSSWB    X1, X0, X0

// func quantizeKey8x16(dst *uint8, step int, x *float32, n int, inverse float32)
TEXT ·quantizeKey8x16(SB), NOSPLIT, $0-36
	MOVQ         dst+0(FP), DI
	MOVQ         step+8(FP), DX
	MOVQ         x+16(FP), SI
	MOVQ         n+24(FP), CX
	VBROADCASTSS inverse+32(FP), Y5
	MOVL         $0x80808080, AX
	VMOVD        AX, X4
	VPSHUFD      $0, X4, X4
	LEAQ         (DX)(DX*2), R8

loop:
	CODES16
	VPXOR   X4, X0, X0
	VMOVD   X0, (DI)
	VPEXTRD $1, X0, (DI)(DX*1)
	VPEXTRD $2, X0, (DI)(DX*2)
	VPEXTRD $3, X0, (DI)(R8*1)
	LEAQ    (DI)(DX*4), DI
	ADDQ    $64, SI
	SUBQ    $16, CX
	JNE     loop
	VZEROUPPER
	RET

// func quantizePairs8x16(dst *int8, x *float32, n int, inverse float32)
TEXT ·quantizePairs8x16(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS inverse+24(FP), Y5

loop:
	CODES16
	VPEXTRB $0, X0, (DI)
	VPEXTRB $1, X0, 2(DI)
	VPEXTRB $2, X0, 4(DI)
	VPEXTRB $3, X0, 6(DI)
	VPEXTRB $4, X0, 8(DI)
	VPEXTRB $5, X0, 10(DI)
	VPEXTRB $6, X0, 12(DI)
	VPEXTRB $7, X0, 14(DI)
	VPEXTRB $8, X0, 16(DI)
	VPEXTRB $9, X0, 18(DI)
	VPEXTRB $10, X0, 20(DI)
	VPEXTRB $11, X0, 22(DI)
	VPEXTRB $12, X0, 24(DI)
	VPEXTRB $13, X0, 26(DI)
	VPEXTRB $14, X0, 28(DI)
	VPEXTRB $15, X0, 30(DI)
	ADDQ    $32, DI
	ADDQ    $64, SI
	SUBQ    $16, CX
	JNE     loop
	VZEROUPPER
	RET

// FLOATS8 rounds 8 elements times Y5 to codes of 8-bit floats, one in each lane
// of out. Y6-Y12 are the constants of f8Constants. Destroys t, u and v.
#define FLOATS8(x, out, t, u, v) \
	VMULPS    x, Y5, out           \
	VPAND     out, Y6, t           \ // the magnitude
	VPSRLD    $24, out, out        \
	VPAND     out, Y7, out         \ // the sign
	VADDPS    t, Y8, u             \ // evenly spaced: rounded by the addition
	VPSUBD    Y8, u, u             \
	VPSRLD    $20, t, v            \
	VPAND     v, Y9, v             \
	VPADDD    t, v, v              \
	VPADDD    Y10, v, v            \ // half of the last bit, less if even
	VPSRLD    $20, v, v            \
	VPSUBD    Y11, v, v            \
	VPCMPGTD  t, Y12, t            \
	VPBLENDVB t, u, v, v           \
	VPOR      v, out, out

// func quantizeF8x16(dst *uint8, x *float32, n int, inverse float32)
TEXT ·quantizeF8x16(SB), NOSPLIT, $0-28
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS inverse+24(FP), Y5
	VPBROADCASTD ·f8Constants+0(SB), Y6
	VPBROADCASTD ·f8Constants+4(SB), Y7
	VPBROADCASTD ·f8Constants+8(SB), Y8
	VPBROADCASTD ·f8Constants+12(SB), Y9
	VPBROADCASTD ·f8Constants+16(SB), Y10
	VPBROADCASTD ·f8Constants+20(SB), Y11
	VPBROADCASTD ·f8Constants+24(SB), Y12

loop:
	FLOATS8((SI), Y0, Y1, Y2, Y3)
	FLOATS8(32(SI), Y4, Y1, Y2, Y3)
	VPACKUSDW    Y4, Y0, Y0
	VPERMQ       $0xD8, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKUSWB    X1, X0, X0
	VMOVDQU      X0, (DI)
	ADDQ         $16, DI
	ADDQ         $64, SI
	SUBQ         $16, CX
	JNE          loop
	VZEROUPPER
	RET

// func roundF16x16(dst *byte, x *float32, n int)
TEXT ·roundF16x16(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VMOVUPS   (SI), Y0
	VMOVUPS   32(SI), Y1
	VCVTPS2PH $0, Y0, (DI)
	VCVTPS2PH $0, Y1, 16(DI)
	ADDQ      $32, DI
	ADDQ      $64, SI
	SUBQ      $16, CX
	JNE       loop
	VZEROUPPER
	RET
