// What the kernels that weigh 64 elements of values end in. The sums of four
// queries are Z0-Z3, Z4-Z7, Z8-Z11 and Z12-Z15; R8 points to the weights of the
// first, DI to its outputs, and R10 is the distance of outputs in bytes.

// OUTPUT adds sums to what is left of an output.
#define OUTPUT(o, sum) \
	VMULPS      o, Z21, Z22   \
	VFMADD231PS Z20, sum, Z22 \
	VMOVUPS     Z22, o

// OUTPUT64 does so for all sums of a query.
#define OUTPUT64(a, b, c, d) \
	VBROADCASTSS BlockWeights_Scale(R8), Z20 \
	VBROADCASTSS BlockWeights_Decay(R8), Z21 \
	OUTPUT((DI), a)    \
	OUTPUT(64(DI), b)  \
	OUTPUT(128(DI), c) \
	OUTPUT(192(DI), d)

#define NEXT_QUERY \
	ADDQ $BlockWeights__size, R8 \
	ADDQ R10, DI

#define OUTPUT4X64 \
	OUTPUT64(Z0, Z1, Z2, Z3)    \
	NEXT_QUERY                  \
	OUTPUT64(Z4, Z5, Z6, Z7)    \
	NEXT_QUERY                  \
	OUTPUT64(Z8, Z9, Z10, Z11)  \
	NEXT_QUERY                  \
	OUTPUT64(Z12, Z13, Z14, Z15)
