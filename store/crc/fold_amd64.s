//go:build !noasm

#include "textflag.h"

// Polynomials over two elements, as the carry-less multiplication takes them: bits in
// reverse, so that the first byte of data has the highest powers of x. Folding a lane of
// 128 bits over D bits multiplies its first half by x^(D+32) and its second by x^(D-32),
// both modulo the polynomial of CRC-32C, and adds what comes of both.

// over 2048 bits, what a round takes
DATA over2048<>+0(SB)/8, $0xdcb17aa4
DATA over2048<>+8(SB)/8, $0xb9e02b86
GLOBL over2048<>(SB), RODATA|NOPTR, $16

// over 512 bits, a register
DATA over512<>+0(SB)/8, $0x740eef02
DATA over512<>+8(SB)/8, $0x9e4addf8
GLOBL over512<>(SB), RODATA|NOPTR, $16

// FOLD makes of acc, by the powers in k, its sum with what comes D bits behind it.
#define FOLD(acc, k, next) \
	VPCLMULQDQ $0x00, k, acc, Z8;   \
	VPCLMULQDQ $0x11, k, acc, acc;  \
	VPTERNLOGQ $0x96, next, Z8, acc

// func fold(state uint32, data *byte, n int) uint32
// n is a multiple of 256, not 0. Four registers hold what 256 bytes were folded to. The
// instruction for CRC-32C, for which nothing is inverted, makes the sum of the last.
TEXT ·fold(SB), NOSPLIT, $64-28
	MOVL          state+0(FP), AX
	MOVQ          data+8(FP), SI
	MOVQ          n+16(FP), CX
	VBROADCASTI32X4 over2048<>(SB), Z6
	VBROADCASTI32X4 over512<>(SB), Z7
	VMOVD         AX, X4
	VPXORQ        (SI), Z4, Z0
	VMOVDQU64     64(SI), Z1
	VMOVDQU64     128(SI), Z2
	VMOVDQU64     192(SI), Z3
	LEAQ          -256(SI)(CX*1), DI // the last round's data

next:
	CMPQ SI, DI
	JEQ  join
	ADDQ $256, SI
	FOLD(Z0, Z6, (SI))
	FOLD(Z1, Z6, 64(SI))
	FOLD(Z2, Z6, 128(SI))
	FOLD(Z3, Z6, 192(SI))
	JMP  next

join:
	FOLD(Z0, Z7, Z1)
	FOLD(Z0, Z7, Z2)
	FOLD(Z0, Z7, Z3)
	VMOVDQU64 Z0, sums-64(SP)
	VZEROUPPER
	XORL   AX, AX
	CRC32Q sums-64(SP), AX
	CRC32Q sums-56(SP), AX
	CRC32Q sums-48(SP), AX
	CRC32Q sums-40(SP), AX
	CRC32Q sums-32(SP), AX
	CRC32Q sums-24(SP), AX
	CRC32Q sums-16(SP), AX
	CRC32Q sums-8(SP), AX
	MOVL   AX, ret+24(FP)
	RET
