//go:build !noasm

#include "textflag.h"
#include "avx512_amd64.h"

// The step of a token over columns of a matrix. The first sweep over the rows adds what the key and what the query read,
// the second decays the rows and adds the value to them.

#define LOAD(base) \
	VMOVUPS.Z (base), K1, Z8     \
	VMOVUPS.Z 64(base), K2, Z9   \
	VMOVUPS.Z 128(base), K3, Z10 \
	VMOVUPS.Z 192(base), K4, Z11

#define STORE(base, a, b, c, d) \
	VMOVUPS a, K1, (base)    \
	VMOVUPS b, K2, 64(base)  \
	VMOVUPS c, K3, 128(base) \
	VMOVUPS d, K4, 192(base)

// EACH applies an operation, whose second source is the same, to four registers.
#define EACH(op, by, a, b, c, d) \
	op by, a, a \
	op by, b, b \
	op by, c, c \
	op by, d, d

// FMA adds the row in Z8 to Z11, times a number, to four registers.
#define FMA(by, a, b, c, d) \
	VFMADD231PS Z8, by, a  \
	VFMADD231PS Z9, by, b  \
	VFMADD231PS Z10, by, c \
	VFMADD231PS Z11, by, d

// func advanceAVX512(to, from *float32, stride, keys, columns int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)
// columns in 1..64; stride in elements. out may be nil. Flags: 1 delta, 2 skip.
TEXT ·advanceAVX512(SB), NOSPLIT, $0-96
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ stride+16(FP), R14
	MOVQ keys+24(FP), BX
	MOVQ columns+32(FP), CX
	MOVQ k+40(FP), R8
	MOVQ q+48(FP), R9
	MOVQ v+56(FP), R10
	MOVQ out+64(FP), R11
	VBROADCASTSS decay+72(FP), Z14
	VBROADCASTSS weight+76(FP), Z15
	MOVQ flags+88(FP), R13
	SHLQ $2, R14

	// The masks of the elements that exist.
	MOVQ  $-1, AX
	NEGQ  CX
	SHRQ  CX, AX
	KMOVW AX, K1
	SHRQ  $16, AX
	KMOVW AX, K2
	SHRQ  $16, AX
	KMOVW AX, K3
	SHRQ  $16, AX
	KMOVW AX, K4

	// Z0 to Z3 are what the key reads, Z4 to Z7 what the query reads.
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	MOVQ SI, R12
	XORQ DX, DX

read:
	LOAD(R12)
	VBROADCASTSS (R8)(DX*4), Z12
	VBROADCASTSS (R9)(DX*4), Z13
	FMA(Z12, Z0, Z1, Z2, Z3)
	FMA(Z13, Z4, Z5, Z6, Z7)
	ADDQ R14, R12
	INCQ DX
	CMPQ DX, BX
	JLT  read

	// Z0 to Z3 become what is added to the rows.
	LOAD(R10)
	TESTQ $1, R13
	JZ    plain
	EACH(VMULPS, Z14, Z0, Z1, Z2, Z3)
	VSUBPS Z0, Z8, Z0
	VSUBPS Z1, Z9, Z1
	VSUBPS Z2, Z10, Z2
	VSUBPS Z3, Z11, Z3
	EACH(VMULPS, Z15, Z0, Z1, Z2, Z3)
	JMP   output

plain:
	VMULPS Z15, Z8, Z0
	VMULPS Z15, Z9, Z1
	VMULPS Z15, Z10, Z2
	VMULPS Z15, Z11, Z3

output:
	TESTQ R11, R11
	JZ    write
	VBROADCASTSS kq+80(FP), Z13
	EACH(VMULPS, Z14, Z4, Z5, Z6, Z7)
	VMULPS Z13, Z0, Z16
	VMULPS Z13, Z1, Z17
	VMULPS Z13, Z2, Z18
	VMULPS Z13, Z3, Z19
	VADDPS Z16, Z4, Z4
	VADDPS Z17, Z5, Z5
	VADDPS Z18, Z6, Z6
	VADDPS Z19, Z7, Z7
	TESTQ $2, R13
	JZ    store
	VBROADCASTSS skip+84(FP), Z13
	EACH(VMULPS, Z13, Z8, Z9, Z10, Z11)
	VADDPS Z8, Z4, Z4
	VADDPS Z9, Z5, Z5
	VADDPS Z10, Z6, Z6
	VADDPS Z11, Z7, Z7

store:
	STORE(R11, Z4, Z5, Z6, Z7)

write:
	LOAD(SI)
	VBROADCASTSS (R8), Z12
	EACH(VMULPS, Z14, Z8, Z9, Z10, Z11)
	VFMADD231PS Z0, Z12, Z8
	VFMADD231PS Z1, Z12, Z9
	VFMADD231PS Z2, Z12, Z10
	VFMADD231PS Z3, Z12, Z11
	STORE(DI, Z8, Z9, Z10, Z11)
	ADDQ $4, R8
	ADDQ R14, SI
	ADDQ R14, DI
	DECQ BX
	JNZ  write
	VZEROUPPER
	RET
