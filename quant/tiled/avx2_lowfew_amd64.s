//go:build !noasm

#include "go_asm.h"
#include "textflag.h"
#include "avx2_lowdecode_amd64.h"

// Hand-written: AVX-512 looks up tables in registers, and its kernels share no step with these.
// The kernels of formats of less than 2 bits, and of Q2_0.

// IQ1_POINT stores the eight coordinates of the points in Y3, which include the eighth.
#define IQ1_POINT(k) \
	GATHER(0, 8, Y3, Y4)            \
	GATHER(4, 8, Y3, Y5)            \
	VPXOR    Y13, Y4, Y4            \
	VPXOR    Y13, Y5, Y5            \
	VMOVDQU  Y4, 64*(2*(k))(DI)     \
	VMOVDQU  Y5, 64*(2*(k)+1)(DI)

// func lowIQ1SAVX2(a *lowArgs)
TEXT ·lowIQ1SAVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_bytes(R14), Y11
	VMOVDQU lowTables256_highThree(R14), Y10
	VMOVDQU lowTables256_bit11(R14), Y15
	VMOVDQU lowTables256_fourteen(R14), Y9

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_eighth)
	WORDS(32, SI)
	HALF_WORDS(544, R9)
	MOVQ $8, DX

group:
	VMOVDQU   (SI), Y0
	VPMOVZXWD (R9), Y1
	VPSRLD    $4, Y1, Y2 // the sign of the eighth
	VPAND     Y15, Y2, Y2
	BYTE_INDEX(0, Y0)
	VPOR      Y2, Y3, Y3
	ADD_HIGH(8, Y1, Y10)
	IQ1_POINT(0)
	BYTE_INDEX(1, Y0)
	VPOR      Y2, Y3, Y3
	ADD_HIGH(5, Y1, Y10)
	IQ1_POINT(1)
	BYTE_INDEX(2, Y0)
	VPOR      Y2, Y3, Y3
	ADD_HIGH(2, Y1, Y10)
	IQ1_POINT(2)
	BYTE_INDEX(3, Y0)
	VPOR      Y2, Y3, Y3
	VPSRLD    $1, Y1, Y8
	VPAND     Y10, Y8, Y8
	VPOR      Y8, Y3, Y3
	IQ1_POINT(3)
	VPSRLD    $11, Y1, Y1
	VPAND     Y9, Y1, Y1
	ODD_SCALE(Y1)
	ADDQ $64, SI
	ADDQ $32, R9
	LOW_GROUP(group)
	LOW_BLOCK(block, 800)
	OTHER_ROWS(rows)

// SCALE_NIBBLE adds the upper nibbles of 16-bit words to the bits of scales from at on.
#define SCALE_NIBBLE(mem, at) \
	VMOVDQU mem, X1         \
	VPSRLW  $12, X1, X1     \
	VPSLLW  $(at), X1, X1   \
	VPOR    X1, X0, X0

// func lowIQ1MAVX2(a *lowArgs)
TEXT ·lowIQ1MAVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_bytes(R14), Y11
	VMOVDQU lowTables256_highNibble(R14), Y10
	VMOVDQU lowTables256_fourteen(R14), Y15

block:
	HALF_WORDS(768, R10)
	VPXOR X0, X0, X0
	SCALE_NIBBLE((R10), 0)
	SCALE_NIBBLE(32(R10), 4)
	SCALE_NIBBLE(64(R10), 8)
	SCALE_NIBBLE(96(R10), 12)
	VBROADCASTSS lowTables256_eighth(R14), Y1
	VCVTPH2PS X0, Y12
	VMULPS    Y1, Y12, Y12
	WORDS(0, SI)
	HALF_WORDS(512, R9)
	MOVQ $8, DX

group:
	VMOVDQU   (SI), Y0
	VPMOVZXWD (R9), Y1
	BYTE_INDEX(0, Y0)
	ADD_HIGH(8, Y1, Y10)
	IQ1_POINT(0)
	BYTE_INDEX(1, Y0)
	ADD_HIGH(4, Y1, Y10)
	IQ1_POINT(1)
	BYTE_INDEX(2, Y0)
	VPAND     Y10, Y1, Y8
	VPOR      Y8, Y3, Y3
	IQ1_POINT(2)
	BYTE_INDEX(3, Y0)
	VPSRLD    $4, Y1, Y8
	VPAND     Y10, Y8, Y8
	VPOR      Y8, Y3, Y3
	IQ1_POINT(3)
	VPMOVZXWD (R10), Y8 // the scales of two groups share words
	VPSLLD    $1, Y8, Y9
	VPSRLD    $2, Y8, Y5
	TESTQ     $1, DX
	JZ        even
	VPSRLD    $5, Y8, Y9
	VPSRLD    $8, Y8, Y5
	ADDQ      $32, R10

even:
	VPAND   Y15, Y9, Y9
	VPAND   Y15, Y5, Y5
	ODD(Y9)
	ODD(Y5)
	VMOVUPS Y9, (R13)
	VMOVUPS Y5, 64(R13)
	VMOVUPS Y12, (R12)
	ADDQ $128, R13
	ADDQ $64, SI
	ADDQ $32, R9
	LOW_GROUP(group)
	LOW_BLOCK(block, 896)
	OTHER_ROWS(rows)

// TRITS stores half a plane of the first base-3 digits of bytes, less 1: 1 for the bytes from a third of 256
// on, and another 1 from two thirds on.
#define TRITS(p, bytes) \
	VPMAXUB  Y14, bytes, Y8       \
	VPCMPEQB bytes, Y8, Y8        \
	VPMAXUB  Y15, bytes, Y9       \
	VPCMPEQB bytes, Y9, Y9        \
	VPSUBB   Y8, Y10, Y8          \
	VPSUBB   Y9, Y8, Y8           \
	VMOVDQU  Y8, 64*(p)(DI)

// TRIPLE moves the next digits to the front.
#define TRIPLE(bytes) \
	VPADDB bytes, bytes, Y8 \
	VPADDB Y8, bytes, bytes

#define TRITS4(p, a, b, c, d) \
	TRITS(p, a)   \
	TRITS(p+1, b) \
	TRITS(p+2, c) \
	TRITS(p+3, d)

#define TRIPLE4(a, b, c, d) \
	TRIPLE(a) \
	TRIPLE(b) \
	TRIPLE(c) \
	TRIPLE(d)

// func lowTQ1AVX2(a *lowArgs)
TEXT ·lowTQ1AVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_minusOnes(R14), Y10
	VMOVDQU lowTables256_digit1(R14), Y14
	VMOVDQU lowTables256_digit2(R14), Y15

block:
	HALF_WORDS(832, R10)
	BLOCK_SCALE(lowTables256_whole)
	WORDS(0, SI)
	VMOVDQU (SI), Y0
	VMOVDQU 64(SI), Y1
	VMOVDQU 128(SI), Y2
	VMOVDQU 192(SI), Y3
	VMOVDQU 256(SI), Y4
	VMOVDQU 320(SI), Y5
	VMOVDQU 384(SI), Y6
	VMOVDQU 448(SI), Y7
	MOVQ $5, DX

group:
	TRITS4(0, Y0, Y1, Y2, Y3)
	TRITS4(4, Y4, Y5, Y6, Y7)
	TRIPLE4(Y0, Y1, Y2, Y3)
	TRIPLE4(Y4, Y5, Y6, Y7)
	VMOVUPS Y12, (R12)
	LOW_GROUP(group)
	VMOVDQU 512(SI), Y0
	VMOVDQU 576(SI), Y1
	VMOVDQU 640(SI), Y2
	VMOVDQU 704(SI), Y3
	VMOVDQU 768(SI), Y4
	MOVQ $2, DX

pair: // the digits of 16 bytes are half a group
	TRITS4(0, Y0, Y1, Y2, Y3)
	TRIPLE4(Y0, Y1, Y2, Y3)
	TRITS4(4, Y0, Y1, Y2, Y3)
	TRIPLE4(Y0, Y1, Y2, Y3)
	VMOVUPS Y12, (R12)
	LOW_GROUP(pair)
	TRITS4(0, Y0, Y1, Y2, Y3)
	TRITS(4, Y4)
	TRIPLE(Y4)
	TRITS(5, Y4)
	TRIPLE(Y4)
	TRITS(6, Y4)
	TRIPLE(Y4)
	TRITS(7, Y4)
	VMOVUPS Y12, (R12)
	ADDQ $512, DI
	ADDQ $64, R12
	LOW_BLOCK(block, 864)
	OTHER_ROWS(rows)

// SIGN_BITS stores half a plane of 1 where the bits of byte k of words are set, and of -1 elsewhere.
#define SIGN_BITS(p, k, bits) \
	VPSHUFB  lowTables256_pick+32*(k)(R14), Y0, Y1 \
	VPAND    bits, Y1, Y1    \
	VPCMPEQB bits, Y1, Y1    \
	VPSUBB   Y1, Y10, Y2     \
	VPSUBB   Y1, Y2, Y2      \
	VMOVDQU  Y2, 64*(p)(DI)

// func lowQ1AVX2(a *lowArgs)
TEXT ·lowQ1AVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_minusOnes(R14), Y10

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_whole)
	WORDS(32, SI)
	MOVQ $4, DX

group:
	VMOVDQU (SI), Y0
	SIGN_BITS(0, 0, Y14)
	SIGN_BITS(1, 0, Y15)
	SIGN_BITS(2, 1, Y14)
	SIGN_BITS(3, 1, Y15)
	SIGN_BITS(4, 2, Y14)
	SIGN_BITS(5, 2, Y15)
	SIGN_BITS(6, 3, Y14)
	SIGN_BITS(7, 3, Y15)
	VMOVUPS Y12, (R12)
	ADDQ $64, SI
	LOW_GROUP(group)
	LOW_BLOCK(block, 288)
	OTHER_ROWS(rows)

// FIELDS stores half a plane of the four fields of 2 bits in byte k of words, less 1. It keeps one field in
// each byte, as bits 0 and 1 or 2 and 3, and looks both up.
#define FIELDS(p, k) \
	VPSHUFB lowTables256_pick+32*(k)(R14), Y0, Y1 \
	VPAND   Y14, Y1, Y1      \
	VPSRLW  $4, Y1, Y2       \
	VPOR    Y2, Y1, Y1       \
	VPAND   Y11, Y1, Y1      \
	VPSHUFB Y1, Y10, Y1      \
	VMOVDQU Y1, 64*(p)(DI)

// func lowQ2AVX2(a *lowArgs)
TEXT ·lowQ2AVX2(SB), NOSPLIT, $0-8
	XORQ BX, BX

rows:
	LOW_ROWS
	VMOVDQU lowTables256_nibbles(R14), Y11
	VMOVDQU lowTables256_levelsPairs(R14), Y10
	VMOVDQU lowTables256_pairs(R14), Y14

block:
	HALF_WORDS(0, R10)
	BLOCK_SCALE(lowTables256_whole)
	WORDS(32, SI)
	MOVQ $2, DX

group:
	VMOVDQU (SI), Y0
	FIELDS(0, 0)
	FIELDS(1, 1)
	FIELDS(2, 2)
	FIELDS(3, 3)
	VMOVDQU 64(SI), Y0
	FIELDS(4, 0)
	FIELDS(5, 1)
	FIELDS(6, 2)
	FIELDS(7, 3)
	VMOVUPS Y12, (R12)
	ADDQ $128, SI
	LOW_GROUP(group)
	LOW_BLOCK(block, 288)
	OTHER_ROWS(rows)
