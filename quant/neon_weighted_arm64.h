// Macros of the kernels that weigh values with products of bytes. Registers of those for four
// queries:
//
//	R0 outputs  R1 values  R2 weights  R3 rounds  R4 elements  R5 queries
//	R6, R7 bytes from an output, a pair to the next

// LOAD_SCALES loads how a query's sums are scaled and what is left of its outputs.
#define LOAD_SCALES(w, scale, decay) \
	ADD   $BlockWeights_Scale, w, R23 \
	VLD1R (R23), [scale.S4]           \
	ADD   $BlockWeights_Decay, w, R23 \
	VLD1R (R23), [decay.S4]

// FOUR_ARGS loads the arguments
// (o *float32, stride int, w *BlockWeights, n int, values *int8, d, rounds int).
#define FOUR_ARGS \
	MOVD o+0(FP), R0       \
	MOVD stride+8(FP), R6  \
	MOVD w+16(FP), R2      \
	MOVD n+24(FP), R5      \
	MOVD values+32(FP), R1 \
	MOVD d+40(FP), R4      \
	MOVD rounds+48(FP), R3 \
	LSL  $2, R6            \
	LSL  $1, R4, R7

// BEGIN_OUTPUTS points R20 to the outputs, R21 to the weights of the first of R22 queries.
#define BEGIN_OUTPUTS \
	MOVD R0, R20 \
	MOVD R2, R21 \
	MOVD R5, R22

// STORE8 adds 8 sums of a query to its outputs, and ends the column after the last query.
#define STORE8(a, b) \
	LOAD_SCALES(R21, V24, V25)      \
	VLD1  (R20), [V26.S4, V27.S4]   \
	FMUL4(25, 26, 26)               \
	FMUL4(25, 27, 27)               \
	VFMLA V24.S4, a.S4, V26.S4      \
	VFMLA V24.S4, b.S4, V27.S4      \
	VST1  [V26.S4, V27.S4], (R20)   \
	SUBS  $1, R22                   \
	BEQ   next                      \
	ADD   $BlockWeights__size, R21  \
	ADD   R6, R20

// NEXT_COLUMN goes to the next 8 elements.
#define NEXT_COLUMN \
	ADD  $32, R0     \
	ADD  $16, R1     \
	SUB  $1, R12     \
	CBNZ R12, column

// ONE_ARGS loads the arguments of a kernel for one query
// (o *float32, w *BlockWeights, values *int8, d, rounds int) and its scales.
#define ONE_ARGS \
	MOVD o+0(FP), R0                   \
	MOVD w+8(FP), R2                   \
	MOVD values+16(FP), R1             \
	MOVD d+24(FP), R4                  \
	MOVD rounds+32(FP), R3             \
	LSL  $1, R4, R7                    \
	ADD  $BlockWeights_floats, R2, R8  \
	LSR  $4, R4, R12                   \
	LOAD_SCALES(R2, V23, V30)

// STORE16 adds the sums V0-V3 of one query to its outputs and goes to the next 16 elements.
#define STORE16 \
	VLD1 (R0), [V24.S4, V25.S4, V26.S4, V27.S4] \
	FMUL4(30, 24, 24)                           \
	FMUL4(30, 25, 25)                           \
	FMUL4(30, 26, 26)                           \
	FMUL4(30, 27, 27)                           \
	VFMLA  V23.S4, V0.S4, V24.S4                \
	VFMLA  V23.S4, V1.S4, V25.S4                \
	VFMLA  V23.S4, V2.S4, V26.S4                \
	VFMLA  V23.S4, V3.S4, V27.S4                \
	VST1.P [V24.S4, V25.S4, V26.S4, V27.S4], 64(R0) \
	ADD    $32, R1                              \
	SUB    $1, R12                              \
	CBNZ   R12, column
