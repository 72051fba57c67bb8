//go:build !noasm

#include "textflag.h"

// Hand-written: it has no twin.

// func vendor() uint32
TEXT ·vendor(SB), NOSPLIT, $0-4
	XORL AX, AX
	CPUID
	MOVL BX, ret+0(FP)
	RET
