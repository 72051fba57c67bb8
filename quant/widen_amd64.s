//go:build !noasm

#include "textflag.h"

// func widenAVX512(dst *float32, src *int8, scale float32, n int)
// n is a multiple of 16.
TEXT ·widenAVX512(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	VBROADCASTSS scale+16(FP), Z1
	MOVQ         n+24(FP), CX
	SHRQ         $4, CX
	JZ           done

loop:
	VPMOVSXBD (SI), Z0
	VCVTDQ2PS Z0, Z0
	VMULPS    Z1, Z0, Z0
	VMOVUPS   Z0, (DI)
	ADDQ      $16, SI
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop

done:
	VZEROUPPER
	RET

// func widenAVX2(dst *float32, src *int8, scale float32, n int)
// n is a multiple of 8.
TEXT ·widenAVX2(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	VBROADCASTSS scale+16(FP), Y1
	MOVQ         n+24(FP), CX
	SHRQ         $3, CX
	JZ           done

loop:
	VPMOVSXBD (SI), Y0
	VCVTDQ2PS Y0, Y0
	VMULPS    Y1, Y0, Y0
	VMOVUPS   Y0, (DI)
	ADDQ      $8, SI
	ADDQ      $32, DI
	DECQ      CX
	JNZ       loop

done:
	VZEROUPPER
	RET
