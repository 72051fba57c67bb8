// What the kernels that weigh 16 elements of values end in. The sums of four
// queries are Y0 and Y1, Y2 and Y3, Y4 and Y5, Y6 and Y7; R8 points to the
// weights of the first, DI to its outputs, and R10 is the distance of outputs in
// bytes.

// OUTPUT adds sums to what is left of an output.
#define OUTPUT(o, sum) \
	VMULPS      o, Y13, Y14   \
	VFMADD231PS Y12, sum, Y14 \
	VMOVUPS     Y14, o

// OUTPUT16 does so for all sums of a query.
#define OUTPUT16(a, b) \
	VBROADCASTSS BlockWeights_Scale(R8), Y12 \
	VBROADCASTSS BlockWeights_Decay(R8), Y13 \
	OUTPUT((DI), a)    \
	OUTPUT(32(DI), b)

#define NEXT_QUERY \
	ADDQ $BlockWeights__size, R8 \
	ADDQ R10, DI

#define OUTPUT4X16 \
	OUTPUT16(Y0, Y1) \
	NEXT_QUERY       \
	OUTPUT16(Y2, Y3) \
	NEXT_QUERY       \
	OUTPUT16(Y4, Y5) \
	NEXT_QUERY       \
	OUTPUT16(Y6, Y7)
