//go:build !noasm

#include "textflag.h"
#include "dequant_amd64.h"

// Decoders, each for a number of whole blocks. Products of scales and quants
// are exact in these formats, so a fused multiply-subtract gives what the two
// operations of the definition give. The K formats put a block's scales, as
// float32, on the stack and broadcast them from there.

// INTEGER broadcasts a number to the register y, of which x is the low part.
#define INTEGER(value, x, y) \
	MOVL         $value, AX \
	VMOVD        AX, x      \
	VPBROADCASTD x, y

// Q4_EIGHT decodes eight low nibbles of the doublewords in q: Y15 is the nibble
// mask, Y14 what is subtracted from a quant, Y0 the scale.
#define Q4_EIGHT(q, offset) \
	VPAND     Y15, q, Y5  \
	VPSUBD    Y14, Y5, Y5 \
	VCVTDQ2PS Y5, Y5      \
	VMULPS    Y0, Y5, Y5  \
	VMOVUPS   Y5, offset(DI)

// K_SCALES decodes the head of a Q4_K or Q5_K block at SI to the stack: eight
// scales d*scale, then eight offsets dmin*min.
#define K_SCALES \
	K_SCALE_BYTES                  \
	VMOVQ        R8, X1            \
	VMOVQ        R9, X2            \
	VPMOVZXBD    X1, Y1            \
	VPMOVZXBD    X2, Y2            \
	VCVTDQ2PS    Y1, Y1            \
	VCVTDQ2PS    Y2, Y2            \
	F16_SCALE((SI), X3, Y3)        \
	F16_SCALE(2(SI), X4, Y4)       \
	VMULPS       Y3, Y1, Y1        \
	VMULPS       Y4, Y2, Y2        \
	VMOVUPS      Y1, scales-64(SP) \
	VMOVUPS      Y2, offsets-32(SP)

// K_EIGHT decodes eight quants at the given byte, shifted right by shift, with
// the scale in Y0 and the offset in Y1. FIFTH adds their fifth bits.
#define K_EIGHT(byte, shift, FIFTH, out) \
	VPMOVZXBD   byte(SI), Y5 \
	VPSRLD      $shift, Y5, Y5 \
	VPAND       Y15, Y5, Y5  \
	FIFTH(byte)              \
	VCVTDQ2PS   Y5, Y5       \
	VFMSUB213PS Y1, Y0, Y5   \
	VMOVUPS     Y5, out(DI)

#define NO_FIFTH(byte)

// WITH_FIFTH moves the bit of the bytes at R14 that X7 numbers to bit 4.
#define WITH_FIFTH(byte) \
	VPMOVZXBD byte(R14), Y6 \
	VPSRLD    X7, Y6, Y6    \
	VPSLLD    $4, Y6, Y6    \
	VPAND     Y13, Y6, Y6   \
	VPOR      Y6, Y5, Y5

// K_GROUP decodes a group of 32.
#define K_GROUP(shift, FIFTH, out) \
	VBROADCASTSS scales-64(SP)(DX*4), Y0  \
	VBROADCASTSS offsets-32(SP)(DX*4), Y1 \
	K_EIGHT(0, shift, FIFTH, out)         \
	K_EIGHT(8, shift, FIFTH, out+32)      \
	K_EIGHT(16, shift, FIFTH, out+64)     \
	K_EIGHT(24, shift, FIFTH, out+96)     \
	INCQ         DX

// Q6_EIGHT decodes eight quants: the nibbles at low(SI), the upper pairs at
// high(R8), each shifted right, with scale number s of the half.
#define Q6_EIGHT(low, lowShift, high, highShift, s, out) \
	VPMOVZXBD    low(SI), Y5         \
	VPSRLD       $lowShift, Y5, Y5   \
	VPAND        Y15, Y5, Y5         \
	VPMOVZXBD    high(R8), Y6        \
	VPSRLD       $highShift, Y6, Y6  \
	VPAND        Y13, Y6, Y6         \
	VPSLLD       $4, Y6, Y6          \
	VPOR         Y6, Y5, Y5          \
	VPSUBD       Y14, Y5, Y5         \
	VCVTDQ2PS    Y5, Y5              \
	VBROADCASTSS (4*(s))(DX), Y0     \
	VMULPS       Y0, Y5, Y5          \
	VMOVUPS      Y5, out(DI)

#define Q6_RUN(low, lowShift, highShift, s, out) \
	Q6_EIGHT(low, lowShift, 0, highShift, s, out)          \
	Q6_EIGHT(low+8, lowShift, 8, highShift, s, out+32)     \
	Q6_EIGHT(low+16, lowShift, 16, highShift, s+1, out+64) \
	Q6_EIGHT(low+24, lowShift, 24, highShift, s+1, out+96)

// func dequantBF16AVX2(dst *float32, src *byte, n int)
// n is a multiple of 16.
TEXT ·dequantBF16AVX2(SB), NOSPLIT, $0-24
	ENTER(n)

loop:
	VPMOVZXWD (SI), Y0
	VPMOVZXWD 16(SI), Y1
	VPSLLD    $16, Y0, Y0
	VPSLLD    $16, Y1, Y1
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, BX
	JNZ       loop
	VZEROUPPER
	RET

// func dequantF16AVX2(dst *float32, src *byte, n int)
// n is a multiple of 16.
TEXT ·dequantF16AVX2(SB), NOSPLIT, $0-24
	ENTER(n)

loop:
	VCVTPH2PS (SI), Y0
	VCVTPH2PS 16(SI), Y1
	VMOVUPS   Y0, (DI)
	VMOVUPS   Y1, 32(DI)
	ADDQ      $32, SI
	ADDQ      $64, DI
	SUBQ      $16, BX
	JNZ       loop
	VZEROUPPER
	RET

// func dequantQ8AVX2(dst *float32, src *byte, blocks int)
// Q8_0: scale f16, 32 signed bytes.
TEXT ·dequantQ8AVX2(SB), NOSPLIT, $0-24
	ENTER(blocks)

loop:
	F16_SCALE((SI), X0, Y0)
	VPMOVSXBD 2(SI), Y1
	VPMOVSXBD 10(SI), Y2
	VPMOVSXBD 18(SI), Y3
	VPMOVSXBD 26(SI), Y4
	VCVTDQ2PS Y1, Y1
	VCVTDQ2PS Y2, Y2
	VCVTDQ2PS Y3, Y3
	VCVTDQ2PS Y4, Y4
	VMULPS    Y0, Y1, Y1
	VMULPS    Y0, Y2, Y2
	VMULPS    Y0, Y3, Y3
	VMULPS    Y0, Y4, Y4
	VMOVUPS   Y1, (DI)
	VMOVUPS   Y2, 32(DI)
	VMOVUPS   Y3, 64(DI)
	VMOVUPS   Y4, 96(DI)
	ADDQ      $34, SI
	ADDQ      $128, DI
	DECQ      BX
	JNZ       loop
	VZEROUPPER
	RET

// func dequantQ4AVX2(dst *float32, src *byte, blocks int)
// Q4_0: scale f16, 16 bytes of nibbles.
TEXT ·dequantQ4AVX2(SB), NOSPLIT, $0-24
	ENTER(blocks)
	INTEGER(15, X15, Y15)
	INTEGER(8, X14, Y14)

loop:
	F16_SCALE((SI), X0, Y0)
	VPMOVZXBD 2(SI), Y1
	VPMOVZXBD 10(SI), Y2
	Q4_EIGHT(Y1, 0)
	Q4_EIGHT(Y2, 32)
	VPSRLD    $4, Y1, Y1
	VPSRLD    $4, Y2, Y2
	Q4_EIGHT(Y1, 64)
	Q4_EIGHT(Y2, 96)
	ADDQ      $18, SI
	ADDQ      $128, DI
	DECQ      BX
	JNZ       loop
	VZEROUPPER
	RET

// func dequantQ4KAVX2(dst *float32, src *byte, blocks int)
TEXT ·dequantQ4KAVX2(SB), NOSPLIT, $64-24
	ENTER(blocks)
	INTEGER(15, X15, Y15)

loop:
	K_SCALES
	ADDQ $16, SI
	XORL DX, DX

	// Two groups share 32 bytes: low nibbles, then high ones.
pair:
	K_GROUP(0, NO_FIFTH, 0)
	K_GROUP(4, NO_FIFTH, 128)
	ADDQ $32, SI
	ADDQ $256, DI
	CMPQ DX, $8
	JLT  pair
	DECQ BX
	JNZ  loop
	VZEROUPPER
	RET

// func dequantQ5KAVX2(dst *float32, src *byte, blocks int)
TEXT ·dequantQ5KAVX2(SB), NOSPLIT, $64-24
	ENTER(blocks)
	INTEGER(15, X15, Y15)
	INTEGER(16, X13, Y13)

loop:
	K_SCALES
	LEAQ 16(SI), R14
	ADDQ $48, SI
	XORL DX, DX

pair:
	VMOVD DX, X7
	K_GROUP(0, WITH_FIFTH, 0)
	VMOVD DX, X7
	K_GROUP(4, WITH_FIFTH, 128)
	ADDQ  $32, SI
	ADDQ  $256, DI
	CMPQ  DX, $8
	JLT   pair
	DECQ  BX
	JNZ   loop
	VZEROUPPER
	RET

// func dequantQ6KAVX2(dst *float32, src *byte, blocks int)
TEXT ·dequantQ6KAVX2(SB), NOSPLIT, $64-24
	ENTER(blocks)
	INTEGER(15, X15, Y15)
	INTEGER(32, X14, Y14)
	INTEGER(3, X13, Y13)

loop:
	F16_SCALE(208(SI), X0, Y0)
	VPMOVSXBD 192(SI), Y1
	VPMOVSXBD 200(SI), Y2
	VCVTDQ2PS Y1, Y1
	VCVTDQ2PS Y2, Y2
	VMULPS    Y0, Y1, Y1
	VMULPS    Y0, Y2, Y2
	VMOVUPS   Y1, scales-64(SP)
	VMOVUPS   Y2, scalesHigh-32(SP)
	LEAQ      scales-64(SP), DX
	LEAQ      128(SI), R8
	MOVL      $2, CX

	// A half of 128 elements: four runs of 32, with two scales each.
half:
	Q6_RUN(0, 0, 0, 0, 0)
	Q6_RUN(32, 0, 2, 2, 128)
	Q6_RUN(0, 4, 4, 4, 256)
	Q6_RUN(32, 4, 6, 6, 384)
	ADDQ $64, SI
	ADDQ $32, R8
	ADDQ $32, DX
	ADDQ $512, DI
	DECL CX
	JNZ  half
	ADDQ $82, SI
	DECQ BX
	JNZ  loop
	VZEROUPPER
	RET
