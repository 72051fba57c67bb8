// WEIGHT_SCALE computes for the greatest weight a in X0, whose bits without the
// sign are in AX:
//
//	BlockWeights.Scale at DI = a·(1/32767), X4 = 32767/a
//
// If a is below 2^-100, both become 0. If a is infinite or a NaN, X4 becomes 0 and
// the scale infinite or a NaN. Destroys X1 and DX.
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
