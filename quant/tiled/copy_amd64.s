//go:build !noasm

// Hand-written: both kernels are instances of one macro.

#include "go_asm.h"
#include "textflag.h"

// COPY_TILES is a copy kernel, see copyArgs. For each token, it copies 16 floats from
// each tile.
//
//	SI results of a token in the first tile   DI output of the token
//	R8 bytes from one tile to the next        R9 bytes from one token's output to the next
//	R10, R11 source and destination of a tile
//	CX tokens left   DX tiles   AX tiles left of the token
#define COPY_TILES(COPY) \
	MOVQ a+0(FP), AX            \
	MOVQ copyArgs_from(AX), SI  \
	MOVQ copyArgs_y(AX), DI     \
	MOVQ copyArgs_size(AX), R8  \
	MOVQ copyArgs_rows(AX), R9  \
	MOVQ copyArgs_tokens(AX), CX \
	MOVQ copyArgs_tiles(AX), DX \
	SHLQ $2, R8                 \
	SHLQ $2, R9                 \
token:                              \
	MOVQ SI, R10                \
	MOVQ DI, R11                \
	MOVQ DX, AX                 \
tile:                               \
	COPY                        \
	ADDQ R8, R10                \
	ADDQ $64, R11               \
	DECQ AX                     \
	JNZ  tile                   \
	ADDQ $64, SI                \
	ADDQ R9, DI                 \
	DECQ CX                     \
	JNZ  token                  \
	VZEROUPPER                  \
	RET

#define COPY512 \
	VMOVUPS (R10), Z0 \
	VMOVUPS Z0, (R11)

#define COPY256 \
	VMOVUPS (R10), Y0   \
	VMOVUPS 32(R10), Y1 \
	VMOVUPS Y0, (R11)   \
	VMOVUPS Y1, 32(R11)

// func copyAVX512(a *copyArgs)
TEXT ·copyAVX512(SB), NOSPLIT, $0-8
	COPY_TILES(COPY512)

// func copyAVX2(a *copyArgs)
TEXT ·copyAVX2(SB), NOSPLIT, $0-8
	COPY_TILES(COPY256)
