//go:build !noasm

#include "textflag.h"
#include "avx2_amd64.h"

// The step of a token over columns of a matrix, as in avx512_matrix_amd64.s. The kernel of 32 columns does without masks.

#define LOAD(base) \
	VMOVUPS (base), Y10   \
	VMOVUPS 32(base), Y11 \
	VMOVUPS 64(base), Y12 \
	VMOVUPS 96(base), Y13

#define STORE(base, a, b, c, d) \
	VMOVUPS a, (base)   \
	VMOVUPS b, 32(base) \
	VMOVUPS c, 64(base) \
	VMOVUPS d, 96(base)

// EACH applies an operation, whose second source is the same, to four registers.
#define EACH(op, by, a, b, c, d) \
	op by, a, a \
	op by, b, b \
	op by, c, c \
	op by, d, d

// FMA adds the row in Y10 to Y13, times a number, to four registers.
#define FMA(by, a, b, c, d) \
	VFMADD231PS Y10, by, a \
	VFMADD231PS Y11, by, b \
	VFMADD231PS Y12, by, c \
	VFMADD231PS Y13, by, d

// ARGS loads the arguments of both kernels.
#define ARGS \
	MOVQ to+0(FP), DI               \
	MOVQ from+8(FP), SI             \
	MOVQ stride+16(FP), R14         \
	MOVQ keys+24(FP), BX            \
	MOVQ k+40(FP), R8               \
	MOVQ q+48(FP), R9               \
	MOVQ v+56(FP), R10              \
	MOVQ out+64(FP), R11            \
	VBROADCASTSS decay+72(FP), Y14  \
	VBROADCASTSS weight+76(FP), Y15 \
	MOVQ flags+88(FP), R13          \
	SHLQ $2, R14                    \
	MOVQ SI, R12                    \
	XORQ DX, DX

// func advanceX4AVX2(to, from *float32, stride, keys, columns int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)
// 32 columns; stride in elements. out may be nil. Flags: 1 delta, 2 skip.
TEXT ·advanceX4AVX2(SB), NOSPLIT, $0-96
	ARGS

	// Y0 to Y3 are what the key reads, Y4 to Y7 what the query reads.
	ZERO8

read:
	LOAD(R12)
	VBROADCASTSS (R8)(DX*4), Y8
	VBROADCASTSS (R9)(DX*4), Y9
	FMA(Y8, Y0, Y1, Y2, Y3)
	FMA(Y9, Y4, Y5, Y6, Y7)
	ADDQ R14, R12
	INCQ DX
	CMPQ DX, BX
	JLT  read

	// Y0 to Y3 become what is added to the rows.
	LOAD(R10)
	TESTQ $1, R13
	JZ    plain
	EACH(VMULPS, Y14, Y0, Y1, Y2, Y3)
	VSUBPS Y0, Y10, Y0
	VSUBPS Y1, Y11, Y1
	VSUBPS Y2, Y12, Y2
	VSUBPS Y3, Y13, Y3
	EACH(VMULPS, Y15, Y0, Y1, Y2, Y3)
	JMP   output

plain:
	VMULPS Y15, Y10, Y0
	VMULPS Y15, Y11, Y1
	VMULPS Y15, Y12, Y2
	VMULPS Y15, Y13, Y3

output:
	TESTQ R11, R11
	JZ    write
	VBROADCASTSS kq+80(FP), Y9
	EACH(VMULPS, Y14, Y4, Y5, Y6, Y7)
	VMULPS Y9, Y0, Y8
	VADDPS Y8, Y4, Y4
	VMULPS Y9, Y1, Y8
	VADDPS Y8, Y5, Y5
	VMULPS Y9, Y2, Y8
	VADDPS Y8, Y6, Y6
	VMULPS Y9, Y3, Y8
	VADDPS Y8, Y7, Y7
	TESTQ $2, R13
	JZ    store
	VBROADCASTSS skip+84(FP), Y9
	EACH(VMULPS, Y9, Y10, Y11, Y12, Y13)
	VADDPS Y10, Y4, Y4
	VADDPS Y11, Y5, Y5
	VADDPS Y12, Y6, Y6
	VADDPS Y13, Y7, Y7

store:
	STORE(R11, Y4, Y5, Y6, Y7)

write:
	LOAD(SI)
	VBROADCASTSS (R8), Y8
	EACH(VMULPS, Y14, Y10, Y11, Y12, Y13)
	VFMADD231PS Y0, Y8, Y10
	VFMADD231PS Y1, Y8, Y11
	VFMADD231PS Y2, Y8, Y12
	VFMADD231PS Y3, Y8, Y13
	STORE(DI, Y10, Y11, Y12, Y13)
	ADDQ $4, R8
	ADDQ R14, SI
	ADDQ R14, DI
	DECQ BX
	JNZ  write
	VZEROUPPER
	RET

// func advanceX1AVX2(to, from *float32, stride, keys, columns int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)
// columns in 1..8; stride in elements. out may be nil. Flags: 1 delta, 2 skip.
TEXT ·advanceX1AVX2(SB), NOSPLIT, $0-96
	MOVQ columns+32(FP), CX
	TAIL_TABLE(CX)
	VMOVUPS (DX), Y13
	ARGS
	ZERO2(Y0, Y4)

read:
	VMASKMOVPS   (R12), Y13, Y10
	VBROADCASTSS (R8)(DX*4), Y8
	VBROADCASTSS (R9)(DX*4), Y9
	VFMADD231PS  Y10, Y8, Y0
	VFMADD231PS  Y10, Y9, Y4
	ADDQ R14, R12
	INCQ DX
	CMPQ DX, BX
	JLT  read

	VMASKMOVPS (R10), Y13, Y10
	TESTQ $1, R13
	JZ    plain
	VMULPS Y14, Y0, Y0
	VSUBPS Y0, Y10, Y0
	VMULPS Y15, Y0, Y0
	JMP   output

plain:
	VMULPS Y15, Y10, Y0

output:
	TESTQ R11, R11
	JZ    write
	VBROADCASTSS kq+80(FP), Y9
	VMULPS Y14, Y4, Y4
	VMULPS Y9, Y0, Y8
	VADDPS Y8, Y4, Y4
	TESTQ $2, R13
	JZ    store
	VBROADCASTSS skip+84(FP), Y9
	VMULPS Y9, Y10, Y10
	VADDPS Y10, Y4, Y4

store:
	VMASKMOVPS Y4, Y13, (R11)

write:
	VMASKMOVPS   (SI), Y13, Y10
	VBROADCASTSS (R8), Y8
	VMULPS Y14, Y10, Y10
	VFMADD231PS Y0, Y8, Y10
	VMASKMOVPS  Y10, Y13, (DI)
	ADDQ $4, R8
	ADDQ R14, SI
	ADDQ R14, DI
	DECQ BX
	JNZ  write
	VZEROUPPER
	RET
