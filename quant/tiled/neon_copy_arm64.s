//go:build !noasm

// Hand-written: it is the only copy kernel of arm64.

#include "go_asm.h"
#include "textflag.h"

// func copyNEON(a *copyArgs)
// For each token, it copies 16 floats from each tile, see copyArgs.
//
//	R0 results of a token in the first tile   R1 output of the token
//	R2 bytes from one tile to the next        R3 bytes from one token's output to the next
//	R6, R7 source and destination of a tile
//	R4 tokens left   R5 tiles   R8 tiles left of the token
TEXT ·copyNEON(SB), NOSPLIT, $0-8
	MOVD a+0(FP), R8
	MOVD copyArgs_from(R8), R0
	MOVD copyArgs_y(R8), R1
	MOVD copyArgs_size(R8), R2
	MOVD copyArgs_rows(R8), R3
	MOVD copyArgs_tokens(R8), R4
	MOVD copyArgs_tiles(R8), R5
	LSL  $2, R2
	LSL  $2, R3

token:
	MOVD R0, R6
	MOVD R1, R7
	MOVD R5, R8

tile:
	VLD1   (R6), [V0.S4, V1.S4, V2.S4, V3.S4]
	ADD    R2, R6
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R7)
	SUB    $1, R8
	CBNZ   R8, tile
	ADD    $64, R0
	ADD    R3, R1
	SUB    $1, R4
	CBNZ   R4, token
	RET
