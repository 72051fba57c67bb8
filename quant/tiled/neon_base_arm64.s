//go:build !noasm

// Hand-written: this is the only GEMM kernel without a dot-product instruction.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_panel_arm64.h"

// GEMM kernel for processors without SDOT. It computes 16 rows of one token; see
// neon_panel_arm64.h for the formula. The products of two planes fit in 16 bits
// (2·128·127 < 2¹⁵); SADALP then adds adjacent lanes in 32 bits. General registers are
// those in neon_panel_arm64.h.
//
//	V0-V3 float sums   V12-V15, V24-V27 codes   V28, V29 16-bit products
//	V4-V11 integer sums: two registers for rows 4c to 4c+3, two lanes per row
//	V16-V23 the token's elements, the same four in every lane of a register

// ROWS4 multiplies the codes p and q, two planes of four rows, with x and y and adds
// the products to the integer sums lo and hi.
#define ROWS4(p, q, x, y, lo, hi) \
	SMULL8(x, p, 28)  \
	SMLAL8(y, q, 28)  \
	SMULL28(x, p, 29) \
	SMLAL28(y, q, 29) \
	SADALP8(28, lo)   \
	SADALP8(29, hi)

#define STEPS2(x, y) \
	VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16] \
	VLD1.P 64(R1), [V24.B16, V25.B16, V26.B16, V27.B16] \
	ROWS4(12, 24, x, y, 4, 5)                           \
	ROWS4(13, 25, x, y, 6, 7)                           \
	ROWS4(14, 26, x, y, 8, 9)                           \
	ROWS4(15, 27, x, y, 10, 11)

#define ZERO_LANES \
	ZERO4(V4, V5, V6, V7) \
	ZERO4(V8, V9, V10, V11)

#define FMUL2(scale, a) FMUL4(scale, a, a)
#define FADD2(b, a) FADD4(b, a, a)

// ADD_LANES adds the two lanes of each row: the integer sums of 16 rows move to V4-V7.
#define ADD_LANES \
	VADDP V5.S4, V4.S4, V4.S4   \
	VADDP V7.S4, V6.S4, V5.S4   \
	VADDP V9.S4, V8.S4, V6.S4   \
	VADDP V11.S4, V10.S4, V7.S4

#define TO_FLOATS \
	SCVTF4(4, 4) \
	SCVTF4(5, 5) \
	SCVTF4(6, 6) \
	SCVTF4(7, 7)

// SCALE_SUMS applies OP to the next 16 floats at from and the sums in V4-V7.
#define SCALE_SUMS(OP, from) \
	VLD1.P 64(from), [V12.S4, V13.S4, V14.S4, V15.S4] \
	OP(12, 4)                                         \
	OP(13, 5)                                         \
	OP(14, 6)                                         \
	OP(15, 7)

// FINISH adds the sums of a group in V4-V7, times scale and dx, to V0-V3.
#define FINISH \
	SCALE_SUMS(FMUL2, R3)                            \
	VLD1R  (R6), [V24.S4]                           \
	VFMLA  V24.S4, V4.S4, V0.S4                     \
	VFMLA  V24.S4, V5.S4, V1.S4                     \
	VFMLA  V24.S4, V6.S4, V2.S4                     \
	VFMLA  V24.S4, V7.S4, V3.S4

// func mulBaseNEON(a *kernelArgs, row, token int)
// It computes all 16 rows of one token. row is 0; codes are signed.
TEXT ·mulBaseNEON(SB), NOSPLIT, $0-24
	PANEL_ARGS(2)
	VLD1 (R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	MOVD kernelArgs_halves(R0), R11

loop:
	VLD1 (R5), [V30.B16, V31.B16]
	ADD  R10, R5
	VDUP V30.S[0], V16.S4
	VDUP V30.S[1], V17.S4
	VDUP V30.S[2], V18.S4
	VDUP V30.S[3], V19.S4
	VDUP V31.S[0], V20.S4
	VDUP V31.S[1], V21.S4
	VDUP V31.S[2], V22.S4
	VDUP V31.S[3], V23.S4
	ZERO_LANES
	STEPS2(16, 17)
	STEPS2(18, 19)
	CMP  $2, R11
	BEQ  halves
	STEPS2(20, 21)
	STEPS2(22, 23)
	ADD_LANES
	TO_FLOATS

finish:
	FINISH
	ADD    R9, R6
	CBZ    R4, next
	VLD1.P 64(R4), [V12.S4, V13.S4, V14.S4, V15.S4]
	VLD1R  (R7), [V24.S4]
	ADD    R9, R7
	VFMLA  V24.S4, V12.S4, V0.S4
	VFMLA  V24.S4, V13.S4, V1.S4
	VFMLA  V24.S4, V14.S4, V2.S4
	VFMLA  V24.S4, V15.S4, V3.S4

next:
	SUB  $1, R8
	CBNZ R8, loop
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R2)
	RET

halves: // V16-V19, whose elements are used up, hold the products of the first half
	ADD_LANES
	SCALE_SUMS(SCALED, R15)
	VMOV V4.B16, V16.B16
	VMOV V5.B16, V17.B16
	VMOV V6.B16, V18.B16
	VMOV V7.B16, V19.B16
	ZERO_LANES
	STEPS2(20, 21)
	STEPS2(22, 23)
	ADD_LANES
	SCALE_SUMS(SCALED, R15)
	FADD2(16, 4)
	FADD2(17, 5)
	FADD2(18, 6)
	FADD2(19, 7)
	B    finish

// func signCodesNEON(dst, src *uint8, groups int)
// It subtracts 128 from codes [groups][8][64]: dst = src - 128. dst may be src.
TEXT ·signCodesNEON(SB), NOSPLIT, $0-24
	MOVD  dst+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  groups+16(FP), R2
	LSL   $3, R2
	VMOVI $128, V31.B16

loop:
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VEOR   V31.B16, V0.B16, V0.B16
	VEOR   V31.B16, V1.B16, V1.B16
	VEOR   V31.B16, V2.B16, V2.B16
	VEOR   V31.B16, V3.B16, V3.B16
	VST1.P [V0.B16, V1.B16, V2.B16, V3.B16], 64(R0)
	SUB    $1, R2
	CBNZ   R2, loop
	RET
