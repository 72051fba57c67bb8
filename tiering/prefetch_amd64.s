//go:build !noasm

#include "textflag.h"

// Hand-written: one loop around one instruction of this architecture.

// func prefetch(address uintptr, n int)
// n is a multiple of 64, not 0.
TEXT ·prefetch(SB), NOSPLIT, $0-16
	MOVQ address+0(FP), SI
	MOVQ n+8(FP), CX

next:
	PREFETCHT1 (SI)
	ADDQ $64, SI
	SUBQ $64, CX
	JNZ  next
	RET
