// What the kernels that weigh 16 elements of values end in. The sums of four
// queries are V1-V4, V5-V8, V9-V12 and V13-V16; R2 points to the weights of the
// first, R0 to its outputs, and R6 is the distance of outputs in bytes.

#define ZERO_SUMS \
	ZERO4(V1, V2, V3, V4)    \
	ZERO4(V5, V6, V7, V8)    \
	ZERO4(V9, V10, V11, V12) \
	ZERO4(V13, V14, V15, V16)

// OUTPUT16 adds a query's sums to what is left of its outputs.
#define OUTPUT16(a, b, c, d) \
	ADD   $BlockWeights_Scale, R2, R7 \
	VLD1R (R7), [V24.S4]              \
	ADD   $BlockWeights_Decay, R2, R7 \
	VLD1R (R7), [V25.S4]              \
	VLD1  (R0), [V26.S4, V27.S4, V28.S4, V29.S4] \
	FMUL4(25, 26, 26)                 \
	FMUL4(25, 27, 27)                 \
	FMUL4(25, 28, 28)                 \
	FMUL4(25, 29, 29)                 \
	VFMLA V24.S4, a.S4, V26.S4        \
	VFMLA V24.S4, b.S4, V27.S4        \
	VFMLA V24.S4, c.S4, V28.S4        \
	VFMLA V24.S4, d.S4, V29.S4        \
	VST1  [V26.S4, V27.S4, V28.S4, V29.S4], (R0)

#define NEXT_QUERY \
	ADD $BlockWeights__size, R2 \
	ADD R6, R0

#define OUTPUT4X16 \
	OUTPUT16(V1, V2, V3, V4)    \
	NEXT_QUERY                  \
	OUTPUT16(V5, V6, V7, V8)    \
	NEXT_QUERY                  \
	OUTPUT16(V9, V10, V11, V12) \
	NEXT_QUERY                  \
	OUTPUT16(V13, V14, V15, V16)
