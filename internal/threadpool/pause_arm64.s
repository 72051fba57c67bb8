//go:build !noasm

#include "textflag.h"

// Hand-written: one loop around one instruction of this architecture.

// func pause(n uint32)
TEXT ·pause(SB), NOSPLIT, $0-4
	MOVWU n+0(FP), R0

again:
	YIELD
	SUBW $1, R0
	CBNZW R0, again
	RET
