//go:build !noasm

#include "textflag.h"

// Hand-written: registers of 256 bits hold two blocks each. The round keys are in memory, twice each.

DATA reverse<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA reverse<>+8(SB)/8, $0x0001020304050607
DATA reverse<>+16(SB)/8, $0x08090a0b0c0d0e0f
DATA reverse<>+24(SB)/8, $0x0001020304050607
GLOBL reverse<>(SB), RODATA|NOPTR, $32
DATA poly<>+0(SB)/8, $0xc200000000000000
DATA poly<>+8(SB)/8, $0
DATA poly<>+16(SB)/8, $0xc200000000000000
DATA poly<>+24(SB)/8, $0
GLOBL poly<>(SB), RODATA|NOPTR, $32

#define OPEN ·openGroups256
#define WIDTH 32
#define S0 Y0
#define S1 Y1
#define S2 Y2
#define S3 Y3
#define S4 Y4
#define S5 Y5
#define S6 Y6
#define S7 Y7
#define LO Y8
#define HI Y9
#define MID Y10
#define BLOCK Y11
#define TEMP Y12
#define KEY Y13
#define REVERSE Y14
#define COUNTER Y15

// Offsets in a table.
#define POWERS 256
#define POWER1 752
#define KEYS 768
#define FOLDED 1248
#define FOLDED1 1744

#define FILL VBROADCASTI128 (AX), COUNTER

#define NARROW \
	VEXTRACTI128 $1, HI, X12; \
	VPXOR        X12, X9, X9

#include "open_avx_amd64.h"
