// Macros of the GEMV kernels with SDOT. With i the integer sum of a group, they compute
//
//	sums[row] += Σ i·scale·d + shift·min     over the groups
//
// for groups of a packed tile of 16 rows and one token. They unpack codes in registers.
// The caller decodes the scales beforehand, except for the kernels of whole tiles.
//
//	R0 sums   R1 codes   R2 bytes from the end of a group to the next   R3 scales
//	R4 mins or nil   R5 x   R6 dx   R7 shift   R8 start   R9 startStep
//	R10 groups left   R15, R16 bytes from a group to the next in x and in dx
//
//	V0-V3 float sums   V4-V7 integer sums of a group, or of its first half
//	V8-V11 integer sums of its second half   V12-V15, V20-V23 codes
//	V16, V17 elements of the token   V18 15 in every byte   V19 startBits

#define VEC_ARGS(size) \
	MOVD  a+0(FP), R11                       \
	MOVD  neonGEMV_sums(R11), R0              \
	MOVD  neonGEMV_codes(R11), R1             \
	MOVD  neonGEMV_stride(R11), R2            \
	SUB   $size, R2                          \
	MOVD  neonGEMV_scales(R11), R3            \
	MOVD  neonGEMV_mins(R11), R4              \
	MOVD  neonGEMV_x(R11), R5                 \
	MOVD  neonGEMV_dx(R11), R6                \
	MOVD  neonGEMV_shift(R11), R7             \
	MOVD  neonGEMV_start(R11), R8             \
	MOVD  neonGEMV_startStep(R11), R9         \
	MOVD  neonGEMV_groups(R11), R10           \
	MOVD  neonGEMV_width(R11), R16            \
	LSL   $5, R16, R15                       \
	LSL   $2, R16                            \
	VLD1  (R0), [V0.S4, V1.S4, V2.S4, V3.S4] \
	VMOVI $15, V18.B16                       \
	MOVD  $const_startBits, R12              \
	VDUP  R12, V19.S4

#define LOAD_X VLD1.P (R5)(R15), [V16.B16, V17.B16]

// START sets the integer sums a to d to start - startBits and advances start.
#define START(a, b, c, d) \
	VLD1R.P (R8)(R9), [d.S4]   \
	VSUB    V19.S4, d.S4, a.S4 \
	VSUB    V19.S4, d.S4, b.S4 \
	VSUB    V19.S4, d.S4, c.S4 \
	VSUB    V19.S4, d.S4, d.S4

#define ZERO_SUMS ZERO4(V4, V5, V6, V7)

// LOAD16 loads the next 16 scales or factors to V12-V15.
#define LOAD16(from) VLD1.P 64(from), [V12.S4, V13.S4, V14.S4, V15.S4]

// FINISH scales the sums in V4-V7 by V12-V15 and adds them, times dx in V20, to V0-V3.
#define FINISH \
	FLOATS(4, 5, 6, 7) \
	FMUL4(12, 4, 4)    \
	FMUL4(13, 5, 5)    \
	FMUL4(14, 6, 6)    \
	FMUL4(15, 7, 7)    \
	FMLA4(20, 0, 4, 0) \
	FMLA4(20, 0, 5, 1) \
	FMLA4(20, 0, 6, 2) \
	FMLA4(20, 0, 7, 3)

// FINISH_GROUP adds a group with one scale, and its min if R4 is not nil. Without a
// min, it jumps to the label next.
#define FINISH_GROUP \
	VLD1R.P (R6)(R16), [V20.S4]                      \
	LOAD16(R3)                                       \
	FINISH                                           \
	CBZ     R4, next                                 \
	VLD1R.P (R7)(R16), [V20.S4]                          \
	VLD1.P  64(R4), [V12.S4, V13.S4, V14.S4, V15.S4] \
	FMLA4(20, 0, 12, 0)                              \
	FMLA4(20, 0, 13, 1)                              \
	FMLA4(20, 0, 14, 2)                              \
	FMLA4(20, 0, 15, 3)

#define NEXT_GROUP \
	ADD R2, R1 \
	SUB $1, R10

#define STORE_SUMS \
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R0)

#define SPLIT4 \
	LOAD_NIBBLES    \
	SPLIT(V12, V20) \
	SPLIT(V13, V21) \
	SPLIT(V14, V22) \
	SPLIT(V15, V23)

#define VEC4(p) \
	SPLIT4                 \
	LOW(p, 20, 21, 22, 23) \
	HIGH(p, 12, 13, 14, 15)

// VEC5 multiplies 5-bit codes: nibbles at R1, fifth bits at R12 and R13. It needs FIVE_CONSTANTS.
#define VEC5(p) \
	SPLIT4                   \
	VLD1R.P 8(R12), [V31.D2] \
	FIFTH(V31, V24, V20)     \
	FIFTH(V31, V25, V21)     \
	FIFTH(V31, V26, V22)     \
	FIFTH(V31, V27, V23)     \
	LOW(p, 20, 21, 22, 23)   \
	VLD1R.P 8(R13), [V31.D2] \
	FIFTH(V31, V24, V12)     \
	FIFTH(V31, V25, V13)     \
	FIFTH(V31, V26, V14)     \
	FIFTH(V31, V27, V15)     \
	HIGH(p, 12, 13, 14, 15)

// FIVE_BITS points R12, R13 and R1 to the fifth bits and the nibbles of a group at R1.
#define FIVE_BITS \
	MOVD R1, R12      \
	ADD  $32, R1, R13 \
	ADD  $64, R1

// Kernels of whole tiles read the scales in the tile blocks and compute the sums of
// consecutive tiles. Registers are those above, except:
//
//	R2 tiles left   R10 tile blocks left   R14 bytes from a tile's sums to the next
//	R3, R4 scratch for the scale and the min of a block, [16] float32 each
//	R17 groups left in a block   R20, R21 next 6-bit scales or factors of a block

#define TILES_ARGS \
	MOVD  a+0(FP), R11                \
	MOVD  neonGEMV_sums(R11), R0      \
	MOVD  neonGEMV_codes(R11), R1     \
	MOVD  neonGEMV_tiles(R11), R2     \
	MOVD  neonGEMV_scales(R11), R3    \
	MOVD  neonGEMV_mins(R11), R4      \
	MOVD  neonGEMV_startStep(R11), R9 \
	MOVD  neonGEMV_apart(R11), R14    \
	MOVD  neonGEMV_width(R11), R16    \
	LSL   $5, R16, R15                \
	LSL   $2, R16                     \
	VMOVI $15, V18.B16                \
	MOVD  $const_startBits, R12       \
	VDUP  R12, V19.S4

#define BEGIN_TILE \
	MOVD neonGEMV_x(R11), R5       \
	MOVD neonGEMV_dx(R11), R6      \
	MOVD neonGEMV_shift(R11), R7   \
	MOVD neonGEMV_start(R11), R8   \
	MOVD neonGEMV_blocks(R11), R10 \
	ZERO4(V0, V1, V2, V3)

// END_TILE stores the sums of a tile and continues with the next.
#define END_TILE \
	VST1 [V0.S4, V1.S4, V2.S4, V3.S4], (R0) \
	ADD  R14, R0                            \
	SUB  $1, R2                             \
	CBNZ R2, tile
