//go:build !noasm

#include "go_asm.h"
#include "quantize_amd64.h"
#include "textflag.h"

// func quantizeAVX2(a *quantizeArgs)
//
//	SI x   DI codes   R8 scale   R9 shift   R10-R12 starts   R13 halfStart
//	CX groups         DX 4·width, which is from a number to the next
//	Y15 magnitude bits of every lane   X14 127   Y13 bytes of 1   Y12 words of 1
TEXT ·quantizeAVX2(SB), NOSPLIT, $0-8
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
	VPBROADCASTD ·magnitudeMask(SB), Y15
	VBROADCASTSS ·largestCode(SB), X14
	VPBROADCASTD ·byteOnes(SB), Y13
	VPCMPEQW     Y12, Y12, Y12
	VPSRLW       $15, Y12, Y12

loop:
	// The largest magnitude, as bits: their order is that of the values.
	VMOVUPS      (SI), Y0
	VMOVUPS      32(SI), Y1
	VMOVUPS      64(SI), Y2
	VMOVUPS      96(SI), Y3
	VPAND        Y15, Y0, Y4
	VPAND        Y15, Y1, Y5
	VPMAXUD      Y5, Y4, Y4
	VPAND        Y15, Y2, Y5
	VPMAXUD      Y5, Y4, Y4
	VPAND        Y15, Y3, Y5
	VPMAXUD      Y5, Y4, Y4
	VEXTRACTI128 $1, Y4, X5
	VPMAXUD      X5, X4, X4
	VPSHUFD      $0x4E, X4, X5
	VPMAXUD      X5, X4, X4
	VPSHUFD      $0xB1, X4, X5
	VPMAXUD      X5, X4, X4
	VMOVD        X4, AX
	CMPL         AX, $const_minMagnitudeBits
	JLT          zero

	// Both quotients at once: 127/most and most/127.
	VUNPCKLPS    X4, X14, X5
	VUNPCKLPS    X14, X4, X6
	VDIVPS       X6, X5, X4
	VBROADCASTSS X4, Y5
	VPSRLQ       $32, X4, X4
	CMPL         AX, $const_infBits
	JGE          bad
	VMULPS       Y5, Y0, Y0
	VMULPS       Y5, Y1, Y1
	VMULPS       Y5, Y2, Y2
	VMULPS       Y5, Y3, Y3
	VCVTPS2DQ    Y0, Y0
	VCVTPS2DQ    Y1, Y1
	VCVTPS2DQ    Y2, Y2
	VCVTPS2DQ    Y3, Y3

	// Packing works within 128 bits: the elements come out as four from each
	// of the registers, twice.
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPACKSSWB Y2, Y0, Y0
	VMOVDQU   ·unpackOrder(SB), Y1
	VPERMD    Y0, Y1, Y0

store:
	VMOVDQU Y0, (DI)
	VMOVSS  X4, (R8)

	VPMADDUBSW   Y0, Y13, Y1
	VPMADDWD     Y12, Y1, Y1
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
