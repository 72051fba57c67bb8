//go:build !noasm

#include "textflag.h"

// Hand-written: only amd64 has AES and carry-less multiplication in 512-bit registers.
//
// GHASH is a polynomial over GF(2^128) in the blocks of the ciphertext. GCM stores bits in
// reflected order: a block with its bytes reversed is a polynomial whose highest power comes
// first. The product of two such blocks comes out one bit too low; the powers of the hash key in
// the table are multiplied by x to compensate. Sixteen blocks are multiplied by the powers 16 to 1
// and added before one reduction.

// reverse reverses the bytes of a block.
DATA reverse<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA reverse<>+8(SB)/8, $0x0001020304050607
GLOBL reverse<>(SB), RODATA|NOPTR, $16

// poly is x^63 + x^62 + x^57, the reflected polynomial without its highest and lowest terms.
DATA poly<>+0(SB)/8, $0xc200000000000000
DATA poly<>+8(SB)/8, $0
GLOBL poly<>(SB), RODATA|NOPTR, $16


// Offsets in a table.
#define POWERS 512 // sixteen are used
#define POWER1 752

// ROUND does one round of AES on 16 blocks.
#define ROUND(key) \
	VAESENC key, Z0, Z0; \
	VAESENC key, Z1, Z1; \
	VAESENC key, Z2, Z2; \
	VAESENC key, Z3, Z3

// COUNT makes the i-th four counter blocks and does the first round.
#define COUNT(to, i) VPXORQ (64*i)(R9), Z17, to

// MULTIPLY adds the products of four blocks with powers at an offset to lo, hi and mid.
#define MULTIPLY(off, blocks) \
	VMOVDQU64  off(DX), Z13;               \
	VPCLMULQDQ $0x00, Z13, blocks, Z14;    \
	VPXORQ     Z14, Z8, Z8;                \
	VPCLMULQDQ $0x11, Z13, blocks, Z14;    \
	VPXORQ     Z14, Z9, Z9;                \
	VPCLMULQDQ $0x01, Z13, blocks, Z14;    \
	VPCLMULQDQ $0x10, Z13, blocks, Z13;    \
	VPTERNLOGQ $0x96, Z13, Z14, Z12

// func openGroups(out, in *byte, groups int, t *table, counter, about, lengths, sum *[16]byte)
// It decrypts groups of 16 blocks with AES-256 in counter mode, and sets sum to the GHASH of one
// block about, the ciphertext, and the block lengths, plus the encrypted block counter. The
// counter of the first block follows it.
TEXT ·openGroups(SB), NOSPLIT, $16-64
	MOVQ out+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ t+24(FP), DX
	MOVQ counter+32(FP), AX
	MOVQ about+40(FP), BX

	VBROADCASTI32X4 reverse<>(SB), Z16
	VBROADCASTI32X4 poly<>(SB), Z6
	VBROADCASTI32X4 (AX), Z17
	VBROADCASTI32X4 0(DX), Z18
	VPXORQ          Z18, Z17, Z17
	VBROADCASTI32X4 16(DX), Z18
	VBROADCASTI32X4 32(DX), Z19
	VBROADCASTI32X4 48(DX), Z20
	VBROADCASTI32X4 64(DX), Z21
	VBROADCASTI32X4 80(DX), Z22
	VBROADCASTI32X4 96(DX), Z23
	VBROADCASTI32X4 112(DX), Z24
	VBROADCASTI32X4 128(DX), Z25
	VBROADCASTI32X4 144(DX), Z26
	VBROADCASTI32X4 160(DX), Z27
	VBROADCASTI32X4 176(DX), Z28
	VBROADCASTI32X4 192(DX), Z29
	VBROADCASTI32X4 208(DX), Z30
	VBROADCASTI32X4 224(DX), Z31

	LEAQ        ·counters(SB), R9
	VPXORQ      16(R9), X17, X7
	ADDQ        $32, R9
	VAESENC     X18, X7, X7
	VAESENC     X19, X7, X7
	VAESENC     X20, X7, X7
	VAESENC     X21, X7, X7
	VAESENC     X22, X7, X7
	VAESENC     X23, X7, X7
	VAESENC     X24, X7, X7
	VAESENC     X25, X7, X7
	VAESENC     X26, X7, X7
	VAESENC     X27, X7, X7
	VAESENC     X28, X7, X7
	VAESENC     X29, X7, X7
	VAESENC     X30, X7, X7
	VAESENCLAST X31, X7, X7
	VMOVDQU     X7, mask-16(SP)

	// X15 is the state of GHASH.
	VMOVDQU (BX), X5
	VPXORQ  X15, X15, X15
	MOVQ    $0, R8
	JMP     single

group:
	// The GHASH of the ciphertext does not depend on its decryption: both run side by side.
	COUNT(Z0, 0)
	COUNT(Z1, 1)
	COUNT(Z2, 2)
	COUNT(Z3, 3)
	VPXORQ    Z8, Z8, Z8
	VPXORQ    Z9, Z9, Z9
	VPXORQ    Z12, Z12, Z12
	VMOVDQU64 64(SI), Z4
	VMOVDQU64 128(SI), Z5
	VMOVDQU64 192(SI), Z7
	ROUND(Z18)
	VPSHUFB   Z16, Z4, Z4
	MULTIPLY(POWERS+64, Z4)
	ROUND(Z19)
	VPSHUFB   Z16, Z5, Z5
	MULTIPLY(POWERS+128, Z5)
	ROUND(Z20)
	VPSHUFB   Z16, Z7, Z7
	MULTIPLY(POWERS+192, Z7)
	ROUND(Z21)
	VMOVDQU64 (SI), Z4
	VPSHUFB   Z16, Z4, Z4
	VPXORQ    Z15, Z4, Z4 // the state is in the first lane, and zeros in the others
	MULTIPLY(POWERS, Z4)
	ROUND(Z22)

	// Reduce all lanes, and add them into the first.
	VPSLLDQ    $8, Z12, Z13
	VPXORQ     Z13, Z8, Z8
	VPSRLDQ    $8, Z12, Z12
	VPXORQ     Z12, Z9, Z9
	ROUND(Z23)
	VPCLMULQDQ $0x00, Z6, Z8, Z13
	VPSHUFD    $0x4e, Z8, Z8
	VPXORQ     Z13, Z8, Z8
	ROUND(Z24)
	VPCLMULQDQ $0x00, Z6, Z8, Z13
	VPSHUFD    $0x4e, Z8, Z8
	VPTERNLOGQ $0x96, Z13, Z8, Z9
	ROUND(Z25)
	VEXTRACTI64X4 $1, Z9, Y13
	VPXORQ     Y13, Y9, Y9
	ROUND(Z26)
	VEXTRACTI64X2 $1, Y9, X13
	VPXORQ     X13, X9, X15
	ROUND(Z27)
	ROUND(Z28)
	ROUND(Z29)
	ROUND(Z30)
	VAESENCLAST Z31, Z0, Z0
	VAESENCLAST Z31, Z1, Z1
	VAESENCLAST Z31, Z2, Z2
	VAESENCLAST Z31, Z3, Z3
	VPXORQ    (SI), Z0, Z0
	VPXORQ    64(SI), Z1, Z1
	VPXORQ    128(SI), Z2, Z2
	VPXORQ    192(SI), Z3, Z3
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, 64(DI)
	VMOVDQU64 Z2, 128(DI)
	VMOVDQU64 Z3, 192(DI)

	ADDQ $256, SI
	ADDQ $256, DI
	ADDQ $256, R9
	DECQ CX
	JNZ  group

	MOVQ    lengths+48(FP), BX
	VMOVDQU (BX), X5
	MOVQ    $1, R8

single: // adds one block to the state and multiplies it by the hash key
	VPSHUFB    X16, X5, X5
	VPXORQ     X15, X5, X5
	VMOVDQU    POWER1(DX), X13
	VPCLMULQDQ $0x00, X13, X5, X8
	VPCLMULQDQ $0x11, X13, X5, X9
	VPCLMULQDQ $0x01, X13, X5, X14
	VPCLMULQDQ $0x10, X13, X5, X12
	VPXORQ     X14, X12, X12
	VPSLLDQ    $8, X12, X13
	VPXORQ     X13, X8, X8
	VPSRLDQ    $8, X12, X12
	VPXORQ     X12, X9, X9
	VPCLMULQDQ $0x00, X6, X8, X13
	VPSHUFD    $0x4e, X8, X8
	VPXORQ     X13, X8, X8
	VPCLMULQDQ $0x00, X6, X8, X13
	VPSHUFD    $0x4e, X8, X8
	VPXORQ     X13, X8, X8
	VPXORQ     X8, X9, X15
	TESTQ      R8, R8
	JZ         group

	VPSHUFB X16, X15, X15
	VPXORQ  mask-16(SP), X15, X15
	MOVQ    sum+56(FP), BX
	VMOVDQU X15, (BX)
	VZEROUPPER
	RET

// func subWord(x uint32) uint32
// It applies the S-box of AES to each byte.
TEXT ·subWord(SB), NOSPLIT, $0-12
	MOVL x+0(FP), AX
	SHLQ $32, AX
	MOVQ AX, X0
	AESKEYGENASSIST $0, X0, X0
	MOVQ X0, AX
	MOVL AX, ret+8(FP)
	RET

// func features7() uint32
// It returns the register ECX of CPUID leaf 7; 0 if there is no such leaf.
TEXT ·features7(SB), NOSPLIT, $0-4
	MOVL $0, ret+0(FP)
	MOVL $0, AX
	CPUID
	CMPL AX, $7
	JLT  none
	MOVL $7, AX
	MOVL $0, CX
	CPUID
	MOVL CX, ret+0(FP)

none:
	RET
