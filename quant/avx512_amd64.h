// Macros that the AVX-512 kernels share.

// ZERO16 clears the sixteen accumulators, ZERO4 four of them.
#define ZERO4(a, b, c, d) \
	VPXORD a, a, a \
	VPXORD b, b, b \
	VPXORD c, c, c \
	VPXORD d, d, d

#define ZERO16 \
	ZERO4(Z0, Z1, Z2, Z3)    \
	ZERO4(Z4, Z5, Z6, Z7)    \
	ZERO4(Z8, Z9, Z10, Z11)  \
	ZERO4(Z12, Z13, Z14, Z15)

// TAIL sets K1 to the low count bits, count in 0..15, and the zero flag if count is 0.
// Destroys AX and CX.
#define TAIL(count) \
	MOVQ  count, CX \
	MOVL  $1, AX    \
	SHLL  CX, AX    \
	DECL  AX        \
	KMOVW AX, K1

// TREE combines sixteen lanes in the order of the contract's tree, by a
// vector operation: the first lane of Z0 becomes the result. Destroys X1.
#define TREE(op) \
	VEXTRACTF64X4 $1, Z0, Y1      \
	op            Y1, Y0, Y0      \
	VEXTRACTF128  $1, Y0, X1      \
	op            X1, X0, X0      \
	VSHUFPS       $0x0E, X0, X0, X1 \
	op            X1, X0, X0      \
	VSHUFPS       $0x01, X0, X0, X1 \
	op            X1, X0, X0
