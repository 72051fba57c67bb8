// Scores of queries with a block of 64 8-bit keys:
//
//	y[q][key] = scale·Σ i·d     over the groups
//
// where i is the integer sum of a group.
//
//	R1 codes   R2 y   R3 scales   R5 x   R6 dx   R7 start   R8 groups   R12 keys left
//	R9 bytes of dx and start in a group   R10 bytes of x in a group
//	R13, R14, R15, R16, R17 codes, x, dx, groups left and start of the current keys

// SCORE_ARGS loads the arguments (a *scoreArgs, query int).
#define SCORE_ARGS \
	MOVD  a+0(FP), R0             \
	MOVD  query+8(FP), R12        \
	MOVD  scoreArgs_codes(R0), R1  \
	MOVD  scoreArgs_y(R0), R2      \
	MOVD  scoreArgs_scales(R0), R3 \
	MOVD  scoreArgs_x(R0), R5      \
	MOVD  scoreArgs_dx(R0), R6     \
	MOVD  scoreArgs_start(R0), R7  \
	MOVD  scoreArgs_groups(R0), R8 \
	MOVD  scoreArgs_width(R0), R9  \
	ADD   R12<<8, R2               \
	ADD   R12<<5, R5               \
	ADD   R12<<2, R6               \
	ADD   R12<<2, R7               \
	LSL   $5, R9, R10              \
	LSL   $2, R9                   \
	MOVD  $const_KeyBlock, R12

// KEY_STEPS sets R19 to the bytes from 8 keys to the next, in the same tile, and R20 to
// those from there to the next tile. NEXT_KEYS goes on and exchanges them.
#define KEY_STEPS \
	MOVD $32, R19      \
	LSL  $9, R8, R20   \
	SUB  $32, R20

#define NEXT_KEYS \
	ADD  $32, R2  \
	ADD  R19, R1  \
	MOVD R19, R21 \
	MOVD R20, R19 \
	MOVD R21, R20 \
	SUBS $8, R12  \
	BNE  keys

// STORE_QUERY multiplies the sums a and b of 8 keys by the scales in V24 and V25 and
// stores them. A and B are the F names of the same registers.
#define STORE_QUERY(a, b, A, B, offset) \
	FMUL4(24, a, a)        \
	FMUL4(25, b, b)        \
	FSTPQ (A, B), offset(R2)

// STORE_KEYS stores the sums V0-V3 of one query and 16 keys, times their scales.
#define STORE_KEYS \
	VLD1.P 64(R3), [V12.S4, V13.S4, V14.S4, V15.S4] \
	FMUL4(12, 0, 0)                                 \
	FMUL4(13, 1, 1)                                 \
	FMUL4(14, 2, 2)                                 \
	FMUL4(15, 3, 3)                                 \
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R2)     \
	SUBS   $16, R12                                 \
	BNE    keys
