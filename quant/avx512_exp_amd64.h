// The exponential. The steps are those of arith.exp in exp.go, and the constants
// are read from expTable.

// EXP_CONSTANTS loads what EXP needs: Z16 the least and Z17 the largest
// argument, Z18 1/ln 2, Z19 the rounding constant, Z20 and Z21 the two parts of
// -ln 2, Z22-Z26 the coefficients of r^6 to r^2, Z27 one, Z28 +Inf, Z29 zero.
#define EXP_CONSTANTS \
	VBROADCASTSS ·expTable+0(SB), Z16 \
	VBROADCASTSS ·expTable+32(SB), Z17 \
	VBROADCASTSS ·expTable+64(SB), Z18 \
	VBROADCASTSS ·expTable+96(SB), Z19 \
	VBROADCASTSS ·expTable+128(SB), Z20 \
	VBROADCASTSS ·expTable+160(SB), Z21 \
	VBROADCASTSS ·expTable+192(SB), Z22 \
	VBROADCASTSS ·expTable+224(SB), Z23 \
	VBROADCASTSS ·expTable+256(SB), Z24 \
	VBROADCASTSS ·expTable+288(SB), Z25 \
	VBROADCASTSS ·expTable+320(SB), Z26 \
	VBROADCASTSS ·expTable+352(SB), Z27 \
	MOVL         $0x7f800000, AX       \
	VPBROADCASTD AX, Z28 \
	VPXORD       Z29, Z29, Z29

// EXP replaces x by e^x. K2 and K3 mark elements that are not too small, and those
// that are too large. Z2 becomes the rounded x/ln 2, then its integer k as a number, x
// the remainder r, and Z3 the polynomial. Scaling is what arith.exp does in the exponent
// field, and leaves NaNs as they are.
#define EXP(x) \
	VCMPPS      $14, Z17, x, K3 \
	EXP_DOWN(x)                 \
	VMOVAPS     Z28, K3, x

// EXP_DOWN is EXP for elements that are not too large.
#define EXP_DOWN(x) \
	VCMPPS      $5, Z16, x, K2     \
	VMOVAPS     x, Z2              \
	VFMADD213PS Z19, Z18, Z2       \
	VSUBPS      Z19, Z2, Z2        \
	VFMADD231PS Z20, Z2, x         \
	VFMADD231PS Z21, Z2, x         \
	VMOVAPS     Z22, Z3            \
	VFMADD213PS Z23, x, Z3         \
	VFMADD213PS Z24, x, Z3         \
	VFMADD213PS Z25, x, Z3         \
	VFMADD213PS Z26, x, Z3         \
	VFMADD213PS Z27, x, Z3         \
	VFMADD213PS Z27, x, Z3         \
	VSCALEFPS.Z Z2, Z3, K2, x
