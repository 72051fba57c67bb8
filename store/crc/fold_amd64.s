//go:build !noasm

#include "textflag.h"

// Hand-written: only amd64 folds with carry-less multiplication.
//
// The code folds polynomials over GF(2) with carry-less multiplication. Bits are reflected:
// the first byte of the data holds the highest powers of x. To fold a 128-bit lane across D
// bits, it multiplies the first half of the lane by x^(D+32) and the second half by
// x^(D-32), both modulo the polynomial of CRC-32C, and adds both products.

// constants to fold across 2048 bits, one iteration
DATA over2048<>+0(SB)/8, $0xdcb17aa4
DATA over2048<>+8(SB)/8, $0xb9e02b86
GLOBL over2048<>(SB), RODATA|NOPTR, $16

// constants to fold across 512 bits, one register
DATA over512<>+0(SB)/8, $0x740eef02
DATA over512<>+8(SB)/8, $0x9e4addf8
GLOBL over512<>(SB), RODATA|NOPTR, $16

// FOLD folds acc across D bits with the constants k and adds the data at next.
#define FOLD(acc, k, next) \
	VPCLMULQDQ $0x00, k, acc, Z8;   \
	VPCLMULQDQ $0x11, k, acc, acc;  \
	VPTERNLOGQ $0x96, next, Z8, acc

// func fold(state uint32, data *byte, n int) uint32
// n is a positive multiple of 256. Z0 to Z3 hold the folded state of 256 bytes. After the
// loop they are folded into Z0, and the CRC32Q instruction, which does not invert its state,
// reduces these 64 bytes to the checksum.
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
	LEAQ          -256(SI)(CX*1), DI // the data of the last iteration

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
	VMOVDQU64 Z0, folded-64(SP)
	VZEROUPPER
	XORL   AX, AX
	CRC32Q folded-64(SP), AX
	CRC32Q folded-56(SP), AX
	CRC32Q folded-48(SP), AX
	CRC32Q folded-40(SP), AX
	CRC32Q folded-32(SP), AX
	CRC32Q folded-24(SP), AX
	CRC32Q folded-16(SP), AX
	CRC32Q folded-8(SP), AX
	MOVL   AX, ret+24(FP)
	RET
