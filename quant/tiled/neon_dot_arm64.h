// Macros that finish a group of 8 rows and four tokens. Registers are those of mulDotNEON in
// neon_dot_arm64.s.

// ADD_TOKENS adds lane t of V26 times two registers of rows to the float sums of token
// t, for four tokens.
#define ADD_TOKENS(a, b, c, d, e, f, g, h) \
	FMLA4(26, 0, a, 0) \
	FMLA4(26, 0, b, 1) \
	FMLA4(26, 1, c, 2) \
	FMLA4(26, 1, d, 3) \
	FMLA4(26, 2, e, 4) \
	FMLA4(26, 2, f, 5) \
	FMLA4(26, 3, g, 6) \
	FMLA4(26, 3, h, 7)

// ALL_SUMS applies OP to all sums and the values of their rows in V24 and V25.
#define ALL_SUMS(OP) \
	OP(24, 8)  \
	OP(25, 9)  \
	OP(24, 10) \
	OP(25, 11) \
	OP(24, 12) \
	OP(25, 13) \
	OP(24, 14) \
	OP(25, 15)

#define TIMES(scale, a) FMUL4(scale, a, a)

// FINISH adds the float sums in V8-V15, times the scales and dx, to V0-V7.
#define FINISH \
	ALL_SUMS(TIMES) \
	ADD_TOKENS(8, 9, 10, 11, 12, 13, 14, 15)
