//go:build !noasm

#include "textflag.h"

// func prefetch(p *byte, lines int)
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), SI
	MOVQ lines+8(FP), BX

loop:
	PREFETCHT0 (SI)
	ADDQ       $64, SI
	DECQ       BX
	JNZ        loop
	RET
