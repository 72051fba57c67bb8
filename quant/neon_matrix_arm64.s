//go:build !noasm

#include "textflag.h"
#include "neon_arm64.h"

// The step of a token over columns of a matrix, as in avx512_matrix_amd64.s.

// FMA16 adds the row in V8 to V11, times a number, to four registers.
#define FMA16(by, a, b, c, d) \
	VFMLA V8.S4, by.S4, a.S4  \
	VFMLA V9.S4, by.S4, b.S4  \
	VFMLA V10.S4, by.S4, c.S4 \
	VFMLA V11.S4, by.S4, d.S4

// MUL16 multiplies four adjacent registers by another, and SUB16 subtracts them from V8 to V11; ADD16 adds those from
// one on. The arguments are numbers of registers.
#define MUL16(by, from, to) \
	FMUL4(by, from, to)         \
	FMUL4(by, (from)+1, (to)+1) \
	FMUL4(by, (from)+2, (to)+2) \
	FMUL4(by, (from)+3, (to)+3)

#define SUB16(less, to) \
	FSUB4(less, 8, to)          \
	FSUB4((less)+1, 9, (to)+1)  \
	FSUB4((less)+2, 10, (to)+2) \
	FSUB4((less)+3, 11, (to)+3)

#define ADD16(more, to) \
	FADD4(more, to, to)             \
	FADD4((more)+1, (to)+1, (to)+1) \
	FADD4((more)+2, (to)+2, (to)+2) \
	FADD4((more)+3, (to)+3, (to)+3)

// func advanceNEON(to, from *float32, stride, keys int, k, q, v, out *float32, decay, weight, kq, skip float32, flags int)
// 16 columns; stride in elements. out may be nil. Flags: 1 delta, 2 skip.
TEXT ·advanceNEON(SB), NOSPLIT, $0-88
	MOVD to+0(FP), R0
	MOVD from+8(FP), R1
	MOVD stride+16(FP), R2
	MOVD keys+24(FP), R3
	MOVD k+32(FP), R4
	MOVD q+40(FP), R5
	MOVD v+48(FP), R6
	MOVD out+56(FP), R7
	MOVD flags+80(FP), R8
	MOVD $decay+64(FP), R9
	VLD1R.P 4(R9), [V14.S4]
	VLD1R.P 4(R9), [V15.S4]
	VLD1R.P 4(R9), [V16.S4]
	VLD1R (R9), [V17.S4]
	LSL  $2, R2
	MOVD R1, R10
	MOVD R3, R11
	MOVD R4, R12

	// V0 to V3 are what the key reads, V4 to V7 what the query reads.
	ZERO4(V0, V1, V2, V3)
	ZERO4(V4, V5, V6, V7)

read:
	VLD1    (R10), [V8.S4, V9.S4, V10.S4, V11.S4]
	VLD1R.P 4(R12), [V12.S4]
	VLD1R.P 4(R5), [V13.S4]
	FMA16(V12, V0, V1, V2, V3)
	FMA16(V13, V4, V5, V6, V7)
	ADD     R2, R10
	SUB     $1, R11
	CBNZ    R11, read

	// V0 to V3 become what is added to the rows.
	VLD1 (R6), [V8.S4, V9.S4, V10.S4, V11.S4]
	TBZ  $0, R8, plain
	MUL16(14, 0, 0)
	SUB16(0, 0)
	MUL16(15, 0, 0)
	B    output

plain:
	MUL16(15, 8, 0)

output:
	CBZ R7, write
	MUL16(14, 4, 4)
	MUL16(16, 0, 20)
	ADD16(20, 4)
	TBZ $1, R8, store
	MUL16(17, 8, 20)
	ADD16(20, 4)

store:
	VST1 [V4.S4, V5.S4, V6.S4, V7.S4], (R7)

write:
	VLD1    (R1), [V8.S4, V9.S4, V10.S4, V11.S4]
	VLD1R.P 4(R4), [V12.S4]
	MUL16(14, 8, 8)
	VFMLA   V0.S4, V12.S4, V8.S4
	VFMLA   V1.S4, V12.S4, V9.S4
	VFMLA   V2.S4, V12.S4, V10.S4
	VFMLA   V3.S4, V12.S4, V11.S4
	VST1    [V8.S4, V9.S4, V10.S4, V11.S4], (R0)
	ADD     R2, R1
	ADD     R2, R0
	SUB     $1, R3
	CBNZ    R3, write
	RET
