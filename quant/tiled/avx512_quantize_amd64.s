//go:build !noasm

#include "go_asm.h"
#include "quantize_amd64.h"
#include "textflag.h"

// func quantizeAVX512(a *quantizeArgs)
//
//	SI x   DI codes   R8 scale   R9 shift   R10-R12 starts   R13 halfStart
//	CX groups         DX 4·width, which is from a number to the next
//	Z31 magnitude bits of every lane   X30 127   Y29 bytes of 1
TEXT ·quantizeAVX512(SB), NOSPLIT, $0-8
	MOVQ         a+0(FP), AX
	MOVQ         quantizeArgs_x(AX), SI
	MOVQ         quantizeArgs_codes(AX), DI
	MOVQ         quantizeArgs_scale(AX), R8
	MOVQ         quantizeArgs_shift(AX), R9
	MOVQ         quantizeArgs_start8(AX), R10
	MOVQ         quantizeArgs_start16(AX), R11
	MOVQ         quantizeArgs_start128(AX), R12
	MOVQ         quantizeArgs_halfStart(AX), R13
	MOVQ         quantizeArgs_groups(AX), CX
	MOVQ         quantizeArgs_width(AX), DX
	SHLQ         $2, DX
	VPBROADCASTD ·magnitudeMask(SB), Z31
	VBROADCASTSS ·largestCode(SB), X30
	VPBROADCASTD ·byteOnes(SB), Y29

loop:
	// The largest magnitude, as bits: their order is that of the values.
	VMOVUPS       (SI), Z0
	VMOVUPS       64(SI), Z1
	VPANDD        Z31, Z0, Z2
	VPANDD        Z31, Z1, Z3
	VPMAXUD       Z3, Z2, Z2
	VEXTRACTI64X4 $1, Z2, Y3
	VPMAXUD       Y3, Y2, Y2
	VEXTRACTI128  $1, Y2, X3
	VPMAXUD       X3, X2, X2
	VPSHUFD       $0x4E, X2, X3
	VPMAXUD       X3, X2, X2
	VPSHUFD       $0xB1, X2, X3
	VPMAXUD       X3, X2, X2
	VMOVD         X2, AX
	CMPL          AX, $const_minMagnitudeBits
	JLT           zero

	// Both quotients at once: 127/most and most/127.
	VUNPCKLPS    X2, X30, X4
	VUNPCKLPS    X30, X2, X5
	VDIVPS       X5, X4, X4
	VBROADCASTSS X4, Z5
	VPSRLQ       $32, X4, X4
	CMPL         AX, $const_infBits
	JGE          bad
	VMULPS       Z5, Z0, Z0
	VMULPS       Z5, Z1, Z1
	VCVTPS2DQ    Z0, Z0
	VCVTPS2DQ    Z1, Z1
	VPMOVSDB     Z0, X0
	VPMOVSDB     Z1, X1
	VINSERTI128  $1, X1, Y0, Y0

store:
	VMOVDQU Y0, (DI)
	VMOVSS  X4, (R8)

	VPXOR        Y1, Y1, Y1
	VPDPBUSD     Y0, Y29, Y1
	GROUP_NUMBERS
	NEXT_ROUNDED
	JNZ  loop
	VZEROUPPER
	RET

zero:
	VXORPS X4, X4, X4

bad: // codes of zero; the scale alone says that there is no finite result
	VPXOR Y0, Y0, Y0
	JMP   store
