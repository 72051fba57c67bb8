//go:build !noasm

#include "textflag.h"

// Hand-written: registers of 128 bits hold one block each, for processors whose AES has no others.

DATA reverse<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA reverse<>+8(SB)/8, $0x0001020304050607
GLOBL reverse<>(SB), RODATA|NOPTR, $16
DATA poly<>+0(SB)/8, $0xc200000000000000
DATA poly<>+8(SB)/8, $0
GLOBL poly<>(SB), RODATA|NOPTR, $16

#define OPEN ·openGroups128
#define WIDTH 16
#define S0 X0
#define S1 X1
#define S2 X2
#define S3 X3
#define S4 X4
#define S5 X5
#define S6 X6
#define S7 X7
#define LO X8
#define HI X9
#define MID X10
#define BLOCK X11
#define TEMP X12
#define KEY X13
#define REVERSE X14
#define COUNTER X15

// Offsets in a table. Sixteen powers are used.
#define KEYS 0
#define POWERS 512
#define POWER1 752
#define FOLDED 1504
#define FOLDED1 1744

#define FILL VMOVDQU (AX), COUNTER

#define NARROW

#include "open_avx_amd64.h"
