// Macros that the AVX2 kernels share.

// ZERO8 clears the eight accumulators, ZERO2 two of them.
#define ZERO2(a, b) \
	VXORPS a, a, a \
	VXORPS b, b, b

#define ZERO8 \
	ZERO2(Y0, Y1) \
	ZERO2(Y2, Y3) \
	ZERO2(Y4, Y5) \
	ZERO2(Y6, Y7)

// TAIL_TABLE points DX at 32 lanes of masks, of which the first count are set.
// count is at most 32. Destroys count.
#define TAIL_TABLE(count) \
	LEAQ ·maskTable+128(SB), DX \
	SHLQ $2, count              \
	SUBQ count, DX

// TREE combines eight lanes in the order of the contract's tree: the first lane
// of Y0 becomes the result. Destroys X1.
#define TREE(op) \
	VEXTRACTF128 $1, Y0, X1         \
	op           X1, X0, X0         \
	VSHUFPS      $0x0E, X0, X0, X1  \
	op           X1, X0, X0         \
	VSHUFPS      $0x01, X0, X0, X1  \
	op           X1, X0, X0
