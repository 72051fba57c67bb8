//go:build !noasm

#include "textflag.h"

// Hand-written: one loop around one instruction of this architecture.

// func prefetch(address uintptr, n int)
// n is a multiple of 64, not 0.
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVD address+0(FP), R0
	MOVD n+8(FP), R1

next:
	PRFM (R0), PLDL2KEEP
	ADD  $64, R0
	SUB  $64, R1
	CBNZ R1, next
	RET
