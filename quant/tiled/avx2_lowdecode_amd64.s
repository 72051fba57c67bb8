//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx2_lowdecode_amd64.h"

// Hand-written: AVX-512 looks up tables in registers, and its kernels share no step with these.

// func lowIQ2XXSAVX2(a *lowArgs)
TEXT ·lowIQ2XXSAVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_bytes(R14), Y11

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_eighth)
	WORDS(32, SI)
	MOVQ $8, DX

group:
	VMOVDQU (SI), Y0
	VMOVDQU 64(SI), Y1
	SPREAD_SEVENS(Y1)
	BYTE_INDEX(0, Y0)
	POINT8(0)
	BYTE_INDEX(1, Y0)
	POINT8(1)
	BYTE_INDEX(2, Y0)
	POINT8(2)
	VPSRLD $24, Y0, Y3
	POINT8(3)
	VPSRLD $27, Y1, Y1
	ODD_SCALE(Y1)
	ADDQ $128, SI
	LOW_GROUP(group)
	LOW_BLOCK(block, 1056)
	OTHER_ROWS(rows)

// func lowIQ2XSAVX2(a *lowArgs)
TEXT ·lowIQ2XSAVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_nineBits(R14), Y11

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_eighth)
	WORDS(32, SI)
	BYTES(1056, R9)
	MOVQ $8, DX

group:
	VMOVDQU (SI), Y0
	VMOVDQU 64(SI), Y1
	VPSHUFB lowTables256_upper+0(R14), Y0, Y6 // the upper seven bits of four words
	VPSHUFB lowTables256_upper+32(R14), Y1, Y4
	VPOR    Y4, Y6, Y6
	VPSRLW  $1, Y6, Y6
	VPAND   lowTables256_sevenBits(R14), Y6, Y6
	EVEN_SIGNS
	VPAND   Y11, Y0, Y3
	POINT8(0)
	VPSRLD  $16, Y0, Y3
	VPAND   Y11, Y3, Y3
	POINT8(1)
	VPAND   Y11, Y1, Y3
	POINT8(2)
	VPSRLD  $16, Y1, Y3
	VPAND   Y11, Y3, Y3
	POINT8(3)
	NIBBLE_FACTORS((R9))
	ADDQ $128, SI
	ADDQ $16, R9
	LOW_GROUP(group)
	LOW_BLOCK(block, 1184)
	OTHER_ROWS(rows)

// func lowIQ2SAVX2(a *lowArgs)
TEXT ·lowIQ2SAVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_bytes(R14), Y11
	VMOVDQU lowTables256_bits89(R14), Y10

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_eighth)
	WORDS(32, SI)
	BYTES(1056, R9)
	MOVQ $8, DX

group:
	VMOVDQU   (SI), Y0
	VMOVDQU   512(SI), Y6
	VPMOVZXBD (R9), Y1
	BYTE_INDEX(0, Y0)
	ADD_HIGH(8, Y1, Y10)
	POINT8(0)
	BYTE_INDEX(1, Y0)
	ADD_HIGH(6, Y1, Y10)
	POINT8(1)
	BYTE_INDEX(2, Y0)
	ADD_HIGH(4, Y1, Y10)
	POINT8(2)
	BYTE_INDEX(3, Y0)
	ADD_HIGH(2, Y1, Y10)
	POINT8(3)
	NIBBLE_FACTORS(128(R9))
	ADDQ $64, SI
	ADDQ $16, R9
	LOW_GROUP(group)
	LOW_BLOCK(block, 1312)
	OTHER_ROWS(rows)

// func lowIQ3XXSAVX2(a *lowArgs)
TEXT ·lowIQ3XXSAVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_bytes(R14), Y11

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_quarter)
	WORDS(32, SI)
	WORDS(1056, R8)
	MOVQ $8, DX

group:
	VMOVDQU (R8), Y1
	SPREAD_SEVENS(Y1)
	VMOVDQU (SI), Y0
	BYTE_INDEX(0, Y0)
	POINT4(0, Y14)
	BYTE_INDEX(1, Y0)
	POINT4(1, Y15)
	BYTE_INDEX(2, Y0)
	POINT4(2, Y14)
	BYTE_INDEX(3, Y0)
	POINT4(3, Y15)
	VMOVDQU 64(SI), Y0
	BYTE_INDEX(0, Y0)
	POINT4(4, Y14)
	BYTE_INDEX(1, Y0)
	POINT4(5, Y15)
	BYTE_INDEX(2, Y0)
	POINT4(6, Y14)
	BYTE_INDEX(3, Y0)
	POINT4(7, Y15)
	VPSRLD  $27, Y1, Y1
	ODD_SCALE(Y1)
	ADDQ $128, SI
	ADDQ $64, R8
	LOW_GROUP(group)
	LOW_BLOCK(block, 1568)
	OTHER_ROWS(rows)

// func lowIQ3SAVX2(a *lowArgs)
TEXT ·lowIQ3SAVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_bytes(R14), Y11
	VMOVDQU lowTables256_bit8(R14), Y10

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_whole)
	WORDS(32, SI)
	BYTES(1056, R9)
	WORDS(1184, R8)
	BYTES(1696, R10)
	MOVQ $8, DX

group:
	VMOVDQU   (R8), Y6
	VPMOVZXBD (R9), Y1
	VMOVDQU   (SI), Y0
	BYTE_INDEX(0, Y0)
	ADD_HIGH(8, Y1, Y10)
	POINT4(0, Y14)
	BYTE_INDEX(1, Y0)
	ADD_HIGH(7, Y1, Y10)
	POINT4(1, Y15)
	BYTE_INDEX(2, Y0)
	ADD_HIGH(6, Y1, Y10)
	POINT4(2, Y14)
	BYTE_INDEX(3, Y0)
	ADD_HIGH(5, Y1, Y10)
	POINT4(3, Y15)
	VMOVDQU   64(SI), Y0
	BYTE_INDEX(0, Y0)
	ADD_HIGH(4, Y1, Y10)
	POINT4(4, Y14)
	BYTE_INDEX(1, Y0)
	ADD_HIGH(3, Y1, Y10)
	POINT4(5, Y15)
	BYTE_INDEX(2, Y0)
	ADD_HIGH(2, Y1, Y10)
	POINT4(6, Y14)
	BYTE_INDEX(3, Y0)
	ADD_HIGH(1, Y1, Y10)
	POINT4(7, Y15)
	VPMOVZXBD (R10), Y1 // the scales of two groups share bytes
	VPSLLD    $1, Y1, Y5
	TESTQ     $1, DX
	JZ        even
	VPSRLD    $3, Y1, Y5
	ADDQ      $16, R10

even:
	ODD_SCALE(Y5)
	ADDQ $128, SI
	ADDQ $16, R9
	ADDQ $64, R8
	LOW_GROUP(group)
	LOW_BLOCK(block, 1760)
	OTHER_ROWS(rows)

// NIBBLES stores half a plane each of the low and the high nibbles of a word.
#define NIBBLES(at, p, q) \
	VMOVDQU at(SI), Y0         \
	VPAND   Y11, Y0, Y1        \
	VPSHUFB Y1, Y10, Y1        \
	VMOVDQU Y1, 64*(p)(DI)     \
	VPSRLW  $4, Y0, Y0         \
	VPAND   Y11, Y0, Y0        \
	VPSHUFB Y0, Y10, Y0        \
	VMOVDQU Y0, 64*(q)(DI)

// FLOAT8 stores the halves of 8-bit floats: their bits are those of a very small float32. 0x7f is 0.
#define FLOAT8(mem, to) \
	VPMOVZXBD mem, Y0              \
	VPCMPEQD  Y15, Y0, Y1          \
	VPSLLD    $20, Y0, Y0          \
	VPAND     Y14, Y0, Y0          \
	VMULPS    Y9, Y0, Y0           \
	VPANDN    Y0, Y1, Y0           \
	VMOVUPS   Y0, to

// func lowNVFP4AVX2(a *lowArgs)
TEXT ·lowNVFP4AVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_nibbles(R14), Y11
	VMOVDQU lowTables256_levelsFP4(R14), Y10
	VBROADCASTSS lowTables256_whole(R14), Y12
	VBROADCASTSS lowTables256_toHalf(R14), Y9
	VPBROADCASTD lowTables256_float8(R14), Y14
	VPBROADCASTD lowTables256_notFloat(R14), Y15

block:
	BYTES(0, R9)
	WORDS(64, SI)
	MOVQ $2, DX

group:
	NIBBLES(0, 0, 2)
	NIBBLES(64, 1, 3)
	NIBBLES(128, 4, 6)
	NIBBLES(192, 5, 7)
	FLOAT8((R9), (R13))
	FLOAT8(16(R9), 64(R13))
	VMOVUPS Y12, (R12)
	ADDQ $128, R13
	ADDQ $256, SI
	ADDQ $32, R9
	LOW_GROUP(group)
	LOW_BLOCK(block, 576)
	OTHER_ROWS(rows)

// TERNARY stores half a plane of words of four codes of 2 bits a byte, of which shift chooses one.
#define TERNARY(p, shift) \
	VPSRLW  $(shift), Y0, Y1  \
	VPAND   Y11, Y1, Y1       \
	VPADDB  Y10, Y1, Y1       \
	VMOVDQU Y1, 512*(shift)/2+64*(p)(DI)

#define TERNARY4(p) \
	VMOVDQU 64*(p)(SI), Y0 \
	TERNARY(p, 0)          \
	TERNARY(p, 2)          \
	TERNARY(p, 4)          \
	TERNARY(p, 6)

// func lowTQ2AVX2(a *lowArgs)
TEXT ·lowTQ2AVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_twoBits(R14), Y11
	VMOVDQU lowTables256_minusOnes(R14), Y10

block:
	HALF_WORDS(1024, R10)
	BLOCK_SCALE(lowTables256_whole)
	WORDS(0, SI)
	MOVQ $2, DX

half:
	TERNARY4(0)
	TERNARY4(1)
	TERNARY4(2)
	TERNARY4(3)
	TERNARY4(4)
	TERNARY4(5)
	TERNARY4(6)
	TERNARY4(7)
	VMOVUPS Y12, (R12)
	VMOVUPS Y12, 64(R12)
	VMOVUPS Y12, 128(R12)
	VMOVUPS Y12, 192(R12)
	ADDQ $512, SI
	ADDQ $1536, DI
	ADDQ $192, R12
	LOW_GROUP(half)
	LOW_BLOCK(block, 1056)
	OTHER_ROWS(rows)
