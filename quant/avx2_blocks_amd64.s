//go:build !noasm

#include "textflag.h"
#include "dequant_amd64.h"

// Hand-written: decoders of the less common formats, which the avx512 path shares. Each block
// unpacks its codes to bytes on the stack; then eight at a time become floats. Products of
// scales and codes are exact where an offset is added to them, so that a fused multiply-add
// gives the same as the two operations of the definition.
//
//	Y0 scale   Y1 offset   Y14 bitTests   Y15 15 in every byte   Y13 the table or the zero

// NIBBLES unpacks the low, then the high nibbles of 16 bytes to X2 and X3.
#define NIBBLES(mem) \
	VMOVDQU mem, X2    \
	VPSRLW  $4, X2, X3 \
	VPAND   X15, X2, X2 \
	VPAND   X15, X3, X3

// FIFTH adds the fifth bits, 32 bits at mem.
#define FIFTH(mem) \
	VPBROADCASTD mem, Y4                \
	VPSHUFB      ·bitBytes(SB), Y4, Y4  \
	VPAND        Y14, Y4, Y4            \
	VPCMPEQB     Y14, Y4, Y4            \
	VPAND        ·sixteens(SB), Y4, Y4  \
	VEXTRACTI128 $1, Y4, X5             \
	VPOR         X4, X2, X2             \
	VPOR         X5, X3, X3

// LOOKUP replaces nibbles by the table's signed values.
#define LOOKUP \
	VPSHUFB X2, X13, X2 \
	VPSHUFB X3, X13, X3

#define STORE_CODES \
	VMOVDQU X2, codes-32(SP) \
	VMOVDQU X3, codes-16(SP)

// SIGNED, LESS_ZERO and WITH_OFFSET compute eight elements: scale·code, scale·(code-zero) and
// scale·code + offset.
#define SIGNED(at) \
	VPMOVSXBD codes-32+at(SP), Y2 \
	VCVTDQ2PS Y2, Y2              \
	VMULPS    Y0, Y2, Y2          \
	VMOVUPS   Y2, (4*at)(DI)

#define LESS_ZERO(at) \
	VPMOVZXBD codes-32+at(SP), Y2 \
	VPSUBD    Y13, Y2, Y2         \
	VCVTDQ2PS Y2, Y2              \
	VMULPS    Y0, Y2, Y2          \
	VMOVUPS   Y2, (4*at)(DI)

#define WITH_OFFSET(at) \
	VPMOVZXBD   codes-32+at(SP), Y2 \
	VCVTDQ2PS   Y2, Y2              \
	VFMADD213PS Y1, Y0, Y2          \
	VMOVUPS     Y2, (4*at)(DI)

#define EACH_EIGHT(ELEMENTS) \
	ELEMENTS(0)   \
	ELEMENTS(8)   \
	ELEMENTS(16)  \
	ELEMENTS(24)

#define NEXT_BLOCK(bytes) \
	ADDQ $bytes, SI \
	ADDQ $128, DI   \
	DECQ BX         \
	JNZ  loop       \
	VZEROUPPER      \
	RET

#define NIBBLE_MASK VMOVDQU ·fifteens(SB), Y15

// func dequantTableAVX2(dst *float32, src *byte, blocks int, table *[16]int8)
// IQ4_NL, NF4: a binary16 scale, 16 bytes of nibbles that index the table.
TEXT ·dequantTableAVX2(SB), NOSPLIT, $32-32
	ENTER(blocks)
	MOVQ    table+24(FP), DX
	VMOVDQU (DX), X13
	NIBBLE_MASK

loop:
	F16_SCALE((SI), X0, Y0)
	NIBBLES(2(SI))
	LOOKUP
	STORE_CODES
	EACH_EIGHT(SIGNED)
	NEXT_BLOCK(18)

// func dequantMXFP4AVX2(dst *float32, src *byte, blocks int, table *[16]int8)
// MXFP4: an exponent e, 16 bytes of nibbles. The scale is 2^(e-128), for e below 2 subnormal.
TEXT ·dequantMXFP4AVX2(SB), NOSPLIT, $32-32
	ENTER(blocks)
	MOVQ    table+24(FP), DX
	VMOVDQU (DX), X13
	NIBBLE_MASK

loop:
	MOVBLZX      (SI), CX
	LEAL         -1(CX), AX
	SHLL         $23, AX
	MOVL         $0x00200000, R8
	SHLL         CX, R8
	CMPL         CX, $2
	CMOVLLT      R8, AX
	VMOVD        AX, X0
	VPBROADCASTD X0, Y0
	NIBBLES(1(SI))
	LOOKUP
	STORE_CODES
	EACH_EIGHT(SIGNED)
	NEXT_BLOCK(17)

// func dequantQ41AVX2(dst *float32, src *byte, blocks int)
// Q4_1: a binary16 scale and offset, 16 bytes of nibbles.
TEXT ·dequantQ41AVX2(SB), NOSPLIT, $32-24
	ENTER(blocks)
	NIBBLE_MASK

loop:
	F16_SCALE((SI), X0, Y0)
	F16_SCALE(2(SI), X1, Y1)
	NIBBLES(4(SI))
	STORE_CODES
	EACH_EIGHT(WITH_OFFSET)
	NEXT_BLOCK(20)

// func dequantI4ZAVX2(dst *float32, src *byte, blocks int)
// I4Z: a binary16 scale, a zero, 16 bytes of nibbles.
TEXT ·dequantI4ZAVX2(SB), NOSPLIT, $32-24
	ENTER(blocks)
	NIBBLE_MASK

loop:
	F16_SCALE((SI), X0, Y0)
	MOVBLZX      2(SI), AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	NIBBLES(3(SI))
	STORE_CODES
	EACH_EIGHT(LESS_ZERO)
	NEXT_BLOCK(19)

// func dequantQ50AVX2(dst *float32, src *byte, blocks int)
// Q5_0: a binary16 scale, 32 fifth bits, 16 bytes of nibbles; the zero is 16.
TEXT ·dequantQ50AVX2(SB), NOSPLIT, $32-24
	ENTER(blocks)
	NIBBLE_MASK
	VMOVDQU      ·bitTests(SB), Y14
	MOVL         $16, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13

loop:
	F16_SCALE((SI), X0, Y0)
	NIBBLES(6(SI))
	FIFTH(2(SI))
	STORE_CODES
	EACH_EIGHT(LESS_ZERO)
	NEXT_BLOCK(22)

// func dequantQ51AVX2(dst *float32, src *byte, blocks int)
// Q5_1: a binary16 scale and offset, 32 fifth bits, 16 bytes of nibbles.
TEXT ·dequantQ51AVX2(SB), NOSPLIT, $32-24
	ENTER(blocks)
	NIBBLE_MASK
	VMOVDQU ·bitTests(SB), Y14

loop:
	F16_SCALE((SI), X0, Y0)
	F16_SCALE(2(SI), X1, Y1)
	NIBBLES(8(SI))
	FIFTH(4(SI))
	STORE_CODES
	EACH_EIGHT(WITH_OFFSET)
	NEXT_BLOCK(24)

// func dequantIQ4XSAVX2(dst *float32, src *byte, blocks int, table *[16]int8)
// IQ4_XS: a binary16 scale, 8 upper bit pairs and 8 low nibbles of scales with zero 32, then
// the nibbles of eight groups of 32.
TEXT ·dequantIQ4XSAVX2(SB), NOSPLIT, $32-32
	ENTER(blocks)
	MOVQ    table+24(FP), DX
	VMOVDQU (DX), X13
	NIBBLE_MASK

loop:
	MOVWLZX   (SI), AX
	VMOVD     AX, X7
	VCVTPH2PS X7, X7
	MOVWLZX   2(SI), R8
	MOVL      4(SI), R9
	ADDQ      $8, SI
	MOVL      $8, DX

group:
	MOVL         R9, AX
	ANDL         $15, AX
	MOVL         R8, CX
	ANDL         $3, CX
	SHLL         $4, CX
	LEAL         -32(AX)(CX*1), AX
	SHRL         $4, R9
	SHRL         $2, R8
	VMOVD        AX, X0
	VCVTDQ2PS    X0, X0
	VMULSS       X7, X0, X0
	VBROADCASTSS X0, Y0
	NIBBLES((SI))
	LOOKUP
	STORE_CODES
	EACH_EIGHT(SIGNED)
	ADDQ         $16, SI
	ADDQ         $128, DI
	DECL         DX
	JNZ          group
	DECQ         BX
	JNZ          loop
	VZEROUPPER
	RET

// SIXTEEN_SCALES converts 16 bytes in X2, times the factor in Y0, to floats in the frame.
#define SIXTEEN_SCALES(PMOV, low, high) \
	PMOV      X2, Y3         \
	VPSRLDQ   $8, X2, X2     \
	PMOV      X2, Y4         \
	VCVTDQ2PS Y3, Y3         \
	VCVTDQ2PS Y4, Y4         \
	VMULPS    Y0, Y3, Y3     \
	VMULPS    Y0, Y4, Y4     \
	VMOVUPS   Y3, low        \
	VMOVUPS   Y4, high

// TWO_BITS extracts 2-bit codes from eight bytes at the given offset of R8. X6 is the shift,
// Y13 is 3.
#define TWO_BITS(at) \
	VPMOVZXBD at(R8), Y2   \
	VPSRLD    X6, Y2, Y2   \
	VPAND     Y13, Y2, Y2

// Q2_EIGHT decodes eight elements with the scale in Y0 and the offset in Y1.
#define Q2_EIGHT(at, to) \
	TWO_BITS(at)             \
	VCVTDQ2PS   Y2, Y2       \
	VFMSUB213PS Y1, Y0, Y2   \
	VMOVUPS     Y2, to(DI)

// Q3_EIGHT decodes eight elements with the scale in Y0: their third bits are bit X7 of the
// bytes at thirds(R9), Y12 is 1 and Y11 is 4.
#define Q3_EIGHT(at, to) \
	TWO_BITS(at)              \
	VPMOVZXBD at(R9), Y3      \
	VPSRLD    X7, Y3, Y3      \
	VPAND     Y12, Y3, Y3     \
	VPSLLD    $2, Y3, Y3      \
	VPOR      Y3, Y2, Y2      \
	VPSUBD    Y11, Y2, Y2     \
	VCVTDQ2PS Y2, Y2          \
	VMULPS    Y0, Y2, Y2      \
	VMOVUPS   Y2, to(DI)

// INTEGER broadcasts a number to y, of which x is the low part.
#define INTEGER(value, x, y) \
	MOVL         $value, AX \
	VMOVD        AX, x      \
	VPBROADCASTD x, y

// func dequantQ2KAVX2(dst *float32, src *byte, blocks int)
// Q2_K: 16 bytes with a scale and a min nibble, 64 bytes of 2-bit codes, binary16 factors of
// scales and mins. A half of 128 elements has four runs of 32 in the bit pairs of 32 bytes.
TEXT ·dequantQ2KAVX2(SB), NOSPLIT, $128-24
	ENTER(blocks)
	NIBBLE_MASK
	INTEGER(3, X13, Y13)

loop:
	VMOVDQU (SI), X5
	VPAND   X15, X5, X2
	F16_SCALE(80(SI), X0, Y0)
	SIXTEEN_SCALES(VPMOVZXBD, scales-128(SP), scalesHigh-96(SP))
	VPSRLW  $4, X5, X2
	VPAND   X15, X2, X2
	F16_SCALE(82(SI), X0, Y0)
	SIXTEEN_SCALES(VPMOVZXBD, offsets-64(SP), offsetsHigh-32(SP))
	LEAQ    16(SI), R8
	XORL    DX, DX

run:
	// DX counts groups of 16; a run has two of them.
	MOVL         DX, CX
	ANDL         $7, CX
	VMOVD        CX, X6
	VBROADCASTSS scales-128(SP)(DX*4), Y0
	VBROADCASTSS offsets-64(SP)(DX*4), Y1
	Q2_EIGHT(0, 0)
	Q2_EIGHT(8, 32)
	VBROADCASTSS scalesOdd-124(SP)(DX*4), Y0
	VBROADCASTSS offsetsOdd-60(SP)(DX*4), Y1
	Q2_EIGHT(16, 64)
	Q2_EIGHT(24, 96)
	ADDQ         $128, DI
	ADDQ         $2, DX
	TESTQ        $7, DX
	JNZ          run
	ADDQ         $32, R8
	CMPQ         DX, $16
	JLT          run
	ADDQ         $84, SI
	DECQ         BX
	JNZ          loop
	VZEROUPPER
	RET

// func dequantQ3KAVX2(dst *float32, src *byte, blocks int)
// Q3_K: 32 bytes of third bits, 64 bytes of 2-bit codes, 12 bytes of scales with zero 32, a
// binary16 factor of them.
TEXT ·dequantQ3KAVX2(SB), NOSPLIT, $64-24
	ENTER(blocks)
	NIBBLE_MASK
	INTEGER(3, X13, Y13)
	INTEGER(1, X12, Y12)
	INTEGER(4, X11, Y11)
	INTEGER(0x30303030, X10, Y10)
	INTEGER(0x20202020, X9, Y9)

loop:
	// Low nibbles in eight bytes, low and then high ones; bit pairs in four.
	VMOVQ       96(SI), X2
	VPSRLW      $4, X2, X3
	VPUNPCKLQDQ X3, X2, X2
	VPAND       X15, X2, X2
	MOVL        104(SI), AX
	MOVL        AX, CX
	SHLL        $4, AX
	VMOVD       AX, X3
	MOVL        CX, AX
	SHLL        $2, AX
	VPINSRD     $1, AX, X3, X3
	VPINSRD     $2, CX, X3, X3
	SHRL        $2, CX
	VPINSRD     $3, CX, X3, X3
	VPAND       X10, X3, X3
	VPOR        X3, X2, X2
	VPSUBB      X9, X2, X2
	F16_SCALE(108(SI), X0, Y0)
	SIXTEEN_SCALES(VPMOVSXBD, scales-64(SP), scalesHigh-32(SP))
	MOVQ        SI, R9
	LEAQ        32(SI), R8
	XORL        DX, DX

run:
	MOVL         DX, CX
	ANDL         $7, CX
	VMOVD        CX, X6
	MOVL         DX, CX
	SHRL         $1, CX
	VMOVD        CX, X7
	VBROADCASTSS scales-64(SP)(DX*4), Y0
	Q3_EIGHT(0, 0)
	Q3_EIGHT(8, 32)
	VBROADCASTSS scalesOdd-60(SP)(DX*4), Y0
	Q3_EIGHT(16, 64)
	Q3_EIGHT(24, 96)
	ADDQ         $128, DI
	ADDQ         $2, DX
	TESTQ        $7, DX
	JNZ          run
	ADDQ         $32, R8
	CMPQ         DX, $16
	JLT          run
	ADDQ         $110, SI
	DECQ         BX
	JNZ          loop
	VZEROUPPER
	RET
