// The exponential. The steps are those of arith.exp in exp.go, and the constants
// are read from expTable, 32 bytes each.

// EXP replaces x by e^x. Y10 becomes the rounded x/ln 2, whose low bits are the
// integer k, Y12 the remainder r, Y11 the polynomial, Y13 masks and Y14 those of
// elements that are too large.
#define EXP(x) \
	VCMPPS      $14, ·expTable+32(SB), x, Y14 \
	EXP_DOWN(x)                               \
	VMOVUPS     ·expTable+448(SB), Y12        \
	VBLENDVPS   Y14, Y12, x, x

// EXP_DOWN is EXP for elements that are not too large.
#define EXP_DOWN(x) \
	VMOVUPS     ·expTable+64(SB), Y11         \
	VMOVAPS     x, Y10                        \
	VFMADD213PS ·expTable+96(SB), Y11, Y10    \
	VSUBPS      ·expTable+96(SB), Y10, Y11    \
	VMOVAPS     x, Y12                        \
	VFMADD231PS ·expTable+128(SB), Y11, Y12   \
	VFMADD231PS ·expTable+160(SB), Y11, Y12   \
	VMOVUPS     ·expTable+192(SB), Y11        \
	VFMADD213PS ·expTable+224(SB), Y12, Y11   \
	VFMADD213PS ·expTable+256(SB), Y12, Y11   \
	VFMADD213PS ·expTable+288(SB), Y12, Y11   \
	VFMADD213PS ·expTable+320(SB), Y12, Y11   \
	VFMADD213PS ·expTable+352(SB), Y12, Y11   \
	VFMADD213PS ·expTable+352(SB), Y12, Y11   \
	VPSLLD      $23, Y10, Y10                 \
	VPADDD      Y10, Y11, Y11                 \
	VCMPPS      $3, x, x, Y13                 \
	VBLENDVPS   Y13, x, Y11, Y11              \
	VCMPPS      $1, ·expTable+0(SB), x, Y13   \
	VANDNPS     Y11, Y13, x
