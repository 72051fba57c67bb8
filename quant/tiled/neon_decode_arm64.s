//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths; macros share the code between formats.

#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"

// Kernels that unpack the codes of a tile to a centred panel. They read the codes of
// groups that are stride bytes apart and write code + bias, one byte per code,
// dst [groups][planes][TileRows][laneBytes]. bias is minus the zero point. groups is
// positive.
//
//	R0 planes 0-3 of a group in dst   R4 planes 4-7   R1 codes   R3 groups left
//	R2 bytes from the end of a group to the next
//	V20-V23 low, V12-V15 high nibbles of a plane   V16 bias or the table

// DECODE_ARGS loads the arguments. size is the size of a group in bytes.
#define DECODE_ARGS(size) \
	MOVD  dst+0(FP), R0     \
	ADD   $256, R0, R4      \
	MOVD  src+8(FP), R1     \
	MOVD  stride+16(FP), R2 \
	SUB   $size, R2         \
	MOVD  groups+24(FP), R3 \
	VMOVI $15, V18.B16

#define STORE_STEPS \
	VST1.P [V20.B16, V21.B16, V22.B16, V23.B16], 64(R0) \
	VST1.P [V12.B16, V13.B16, V14.B16, V15.B16], 64(R4)

#define NEXT_GROUP \
	ADD $256, R0 \
	ADD $256, R4 \
	ADD R2, R1   \
	SUB $1, R3

#define ADD_BIAS(a, b, c, d) \
	VADD V16.B16, a.B16, a.B16 \
	VADD V16.B16, b.B16, b.B16 \
	VADD V16.B16, c.B16, c.B16 \
	VADD V16.B16, d.B16, d.B16

#define LOOK_UP(codes) VTBL codes.B16, [V16.B16], codes.B16

#define DECODE4 \
	LOAD_NIBBLES    \
	SPLIT(V12, V20) \
	SPLIT(V13, V21) \
	SPLIT(V14, V22) \
	SPLIT(V15, V23) \
	LOOK_UP(V20)    \
	LOOK_UP(V21)    \
	LOOK_UP(V22)    \
	LOOK_UP(V23)    \
	LOOK_UP(V12)    \
	LOOK_UP(V13)    \
	LOOK_UP(V14)    \
	LOOK_UP(V15)    \
	STORE_STEPS

// func decode4NEON(dst *uint8, src *byte, stride, groups int, table *[16]uint8)
// It replaces every nibble n by table[n], which includes the bias.
TEXT ·decode4NEON(SB), NOSPLIT, $0-40
	DECODE_ARGS(256)
	MOVD table+32(FP), R5
	VLD1 (R5), [V16.B16]

loop:
	DECODE4
	DECODE4
	DECODE4
	DECODE4
	NEXT_GROUP
	CBNZ R3, loop
	RET

#define DECODE5 \
	LOAD_NIBBLES                 \
	SPLIT(V12, V20)              \
	SPLIT(V13, V21)              \
	SPLIT(V14, V22)              \
	SPLIT(V15, V23)              \
	VLD1R.P 8(R5), [V31.D2]      \
	FIFTH(V31, V24, V20)         \
	FIFTH(V31, V25, V21)         \
	FIFTH(V31, V26, V22)         \
	FIFTH(V31, V27, V23)         \
	VLD1R.P 8(R6), [V31.D2]      \
	FIFTH(V31, V24, V12)         \
	FIFTH(V31, V25, V13)         \
	FIFTH(V31, V26, V14)         \
	FIFTH(V31, V27, V15)         \
	ADD_BIAS(V20, V21, V22, V23) \
	ADD_BIAS(V12, V13, V14, V15) \
	STORE_STEPS

// func decode5NEON(dst *uint8, src *byte, stride, groups, bias int)
TEXT ·decode5NEON(SB), NOSPLIT, $0-40
	DECODE_ARGS(320)
	MOVD bias+32(FP), R5
	VDUP R5, V16.B16
	FIVE_CONSTANTS

loop:
	MOVD R1, R5
	ADD  $32, R1, R6
	ADD  $64, R1
	DECODE5
	DECODE5
	DECODE5
	DECODE5
	NEXT_GROUP
	CBNZ R3, loop
	RET

// SIX shifts the 2-bit fields in high to bits 4 and 5 with op and adds them to codes.
#define SIX(op, places, high, codes) \
	op places, high.B16, V30.B16 \
	HIGH2(codes)

#define DECODE6(op, places) \
	LOAD_NIBBLES                 \
	SPLIT(V12, V20)              \
	SPLIT(V13, V21)              \
	SPLIT(V14, V22)              \
	SPLIT(V15, V23)              \
	SIX(op, places, V4, V20)     \
	SIX(op, places, V5, V21)     \
	SIX(op, places, V6, V22)     \
	SIX(op, places, V7, V23)     \
	SIX(op, places, V8, V12)     \
	SIX(op, places, V9, V13)     \
	SIX(op, places, V10, V14)    \
	SIX(op, places, V11, V15)    \
	ADD_BIAS(V20, V21, V22, V23) \
	ADD_BIAS(V12, V13, V14, V15) \
	STORE_STEPS

// func decode6NEON(dst *uint8, src *byte, stride, groups, bias int)
TEXT ·decode6NEON(SB), NOSPLIT, $0-40
	DECODE_ARGS(384)
	MOVD  bias+32(FP), R5
	VDUP  R5, V16.B16
	VMOVI $0x30, V29.B16

loop:
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]
	VLD1.P 64(R1), [V8.B16, V9.B16, V10.B16, V11.B16]
	DECODE6(VSHL, $4)
	DECODE6(VSHL, $2)
	DECODE6(VSHL, $0)
	DECODE6(VUSHR, $2)
	NEXT_GROUP
	CBNZ R3, loop
	RET
