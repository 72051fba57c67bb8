//go:build !noasm

// Throughput of the AMX instruction TDPBSSD.
//
// Hand-written: this is the only loop with tile registers.
//
//	CX iterations left   AX config   SI row   DX 0, the row stride of TILELOADD
//	TMM0-TMM3 accumulators   TMM4, TMM5 factors

#include "textflag.h"

// Encodings of AMX instructions, which the Go assembler lacks. Tile numbers are
// 0 to 7. LDTILECFG loads (AX). TILELOADD loads every row of tile t from (SI+DX·row).
#define VEX BYTE $0xC4; BYTE $0xE2
#define LDTILECFG VEX; BYTE $0x78; BYTE $0x49; BYTE $0x00
#define TILERELEASE VEX; BYTE $0x78; BYTE $0x49; BYTE $0xC0
#define TILEZERO(t) VEX; BYTE $0x7B; BYTE $0x49; BYTE $(0xC0+8*t)
#define TILELOADD(t) VEX; BYTE $0x7B; BYTE $0x4B; BYTE $(0x04+8*t); BYTE $0x16
#define TDPBSSD(sums, a, b) VEX; BYTE $(0x03+8*(15-b)); BYTE $0x5E; BYTE $(0xC0+8*sums+a)

// func peakAMX(rounds int, config *tileConfig, row *[64]byte)
// It executes rounds·4 TDPBSSD. rounds is positive.
TEXT ·peakAMX(SB), NOSPLIT, $0-24
	MOVQ rounds+0(FP), CX
	MOVQ config+8(FP), AX
	MOVQ row+16(FP), SI
	XORL DX, DX
	LDTILECFG
	TILELOADD(4)
	TILELOADD(5)
	TILEZERO(0)
	TILEZERO(1)
	TILEZERO(2)
	TILEZERO(3)

loop:
	TDPBSSD(0, 4, 5)
	TDPBSSD(1, 4, 5)
	TDPBSSD(2, 4, 5)
	TDPBSSD(3, 4, 5)
	DECQ CX
	JNZ  loop
	TILERELEASE
	RET
