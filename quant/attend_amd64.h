// WEIGHT_SCALE sets what the codes at DI of weights are multiplied with, and X4
// to what makes codes of weights, from the greatest of them: X0, and in AX its
// bits without the sign that a NaN may have. If it is too small both become 0; if
// it is infinite or a NaN, X4 does, and the scale is infinite or a NaN. Destroys
// X1 and DX.
#define WEIGHT_SCALE \
	XORL   DX, DX                       \
	VXORPS X4, X4, X4                   \
	CMPL   AX, ·weightLimits+0(SB)      \
	JB     small                        \
	CMPL   AX, ·weightLimits+4(SB)      \
	JAE    broken                       \
	VMOVSS ·weightLimits+8(SB), X4      \
	VDIVSS X0, X4, X4                   \
broken:                                     \
	VMULSS ·weightLimits+12(SB), X0, X1 \
	VMOVD  X1, DX                       \
small:                                      \
	MOVL   DX, BlockWeights_Scale(DI)
