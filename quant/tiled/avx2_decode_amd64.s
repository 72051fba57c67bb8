//go:build !noasm

// Hand-written: AVX2 has neither mask registers nor VPTERNLOGD, so it unpacks the
// high bits with other instructions than AVX-512.

#include "textflag.h"

// Kernels that unpack the codes of a tile to a panel. They read the codes of groups
// that are stride bytes apart and write one byte per code,
// dst [groups][planes][TileRows][laneBytes]. A plane takes two vectors. groups is
// positive.
//
//	DI dst   SI src   DX stride   CX groups left
//	Y0, Y1 codes of a low and a high nibble   Y2-Y5 high bits
//	Y15 0x0F in every byte   Y14 the table, or the mask of the high bits

#define CODE_ARGS \
	MOVQ dst+0(FP), DI     \
	MOVQ src+8(FP), SI     \
	MOVQ stride+16(FP), DX \
	MOVQ groups+24(FP), CX \
	VPBROADCASTD ·nibbleMask(SB), Y15

#define NEXT_GROUP \
	ADDQ DX, SI   \
	ADDQ $512, DI \
	DECQ CX

// NIBBLES loads a vector and splits its bytes into nibbles.
#define NIBBLES(mem, low, high) \
	VMOVDQU mem, high       \
	VPAND   Y15, high, low  \
	VPSRLW  $4, high, high  \
	VPAND   Y15, high, high

// LOOKUP decodes a vector of nibbles with the table. The low nibbles are half of a
// plane, the high nibbles half of the plane four further.
#define LOOKUP(at) \
	NIBBLES(at(SI), Y0, Y1) \
	VPSHUFB Y0, Y14, Y0     \
	VPSHUFB Y1, Y14, Y1     \
	VMOVDQU Y0, at(DI)      \
	VMOVDQU Y1, at+256(DI)

// func decode4AVX2(dst *uint8, src *byte, stride, groups int, table *[16]uint8)
// It replaces every nibble n by table[n].
TEXT ·decode4AVX2(SB), NOSPLIT, $0-40
	CODE_ARGS
	MOVQ           table+32(FP), AX
	VBROADCASTI128 (AX), Y14

loop:
	LOOKUP(0)
	LOOKUP(32)
	LOOKUP(64)
	LOOKUP(96)
	LOOKUP(128)
	LOOKUP(160)
	LOOKUP(192)
	LOOKUP(224)
	NEXT_GROUP
	JNZ loop
	VZEROUPPER
	RET

// SPREAD expands the 32 bits at mem to bytes: 0x10 for a set bit, otherwise 0. VPSHUFB
// copies the source byte of each bit, and VPAND with VPCMPEQB tests the bit.
#define SPREAD(mem, bits) \
	VPBROADCASTD mem, bits        \
	VPSHUFB      Y13, bits, bits  \
	VPAND        Y12, bits, bits  \
	VPCMPEQB     Y12, bits, bits  \
	VPAND        Y14, bits, bits

// FIVE unpacks a vector of nibbles and adds their fifth bits, at bits(SI) for the low
// and at bits+32(SI) for the high nibbles.
#define FIVE(at, bits) \
	NIBBLES(at+64(SI), Y0, Y1) \
	SPREAD(bits(SI), Y2)       \
	SPREAD(bits+32(SI), Y3)    \
	VPOR    Y2, Y0, Y0         \
	VPOR    Y3, Y1, Y1         \
	VMOVDQU Y0, at(DI)         \
	VMOVDQU Y1, at+256(DI)

// func decode5AVX2(dst *uint8, src *byte, stride, groups int)
// Y13 and Y12 are bitBytes and bitTests.
TEXT ·decode5AVX2(SB), NOSPLIT, $0-32
	CODE_ARGS
	VPBROADCASTD ·fifthBit(SB), Y14
	VMOVDQU      ·bitBytes(SB), Y13
	VPBROADCASTQ ·bitTests(SB), Y12

loop:
	FIVE(0, 0)
	FIVE(32, 4)
	FIVE(64, 8)
	FIVE(96, 12)
	FIVE(128, 16)
	FIVE(160, 20)
	FIVE(192, 24)
	FIVE(224, 28)
	NEXT_GROUP
	JNZ loop
	VZEROUPPER
	RET

// SIX unpacks a vector of nibbles and adds their high bits. Y4 and Y5 hold the high
// bits of the low and the high nibbles; SHIFT moves the plane's field to bits 4 and 5.
#define SIX(at, SHIFT) \
	NIBBLES(at+128(SI), Y0, Y1) \
	SHIFT(Y4, Y2)           \
	SHIFT(Y5, Y3)           \
	VPAND   Y14, Y2, Y2     \
	VPAND   Y14, Y3, Y3     \
	VPOR    Y2, Y0, Y0      \
	VPOR    Y3, Y1, Y1      \
	VMOVDQU Y0, at(DI)      \
	VMOVDQU Y1, at+256(DI)

#define LEFT4(bits, dst) VPSLLW $4, bits, dst
#define LEFT2(bits, dst) VPSLLW $2, bits, dst
#define THERE(bits, dst) VMOVDQA bits, dst
#define RIGHT2(bits, dst) VPSRLW $2, bits, dst

// func decode6AVX2(dst *uint8, src *byte, stride, groups int)
TEXT ·decode6AVX2(SB), NOSPLIT, $0-32
	CODE_ARGS
	VPBROADCASTD ·highMask(SB), Y14

loop:
	VMOVDQU (SI), Y4
	VMOVDQU 64(SI), Y5
	SIX(0, LEFT4)
	SIX(64, LEFT2)
	SIX(128, THERE)
	SIX(192, RIGHT2)
	VMOVDQU 32(SI), Y4
	VMOVDQU 96(SI), Y5
	SIX(32, LEFT4)
	SIX(96, LEFT2)
	SIX(160, THERE)
	SIX(224, RIGHT2)
	NEXT_GROUP
	JNZ loop
	VZEROUPPER
	RET

#define COPY4(at) \
	VMOVDQU at(SI), Y0    \
	VMOVDQU at+32(SI), Y1 \
	VMOVDQU at+64(SI), Y2 \
	VMOVDQU at+96(SI), Y3 \
	VMOVDQU Y0, at(DI)    \
	VMOVDQU Y1, at+32(DI) \
	VMOVDQU Y2, at+64(DI) \
	VMOVDQU Y3, at+96(DI)

// func decode8AVX2(dst *uint8, src *byte, stride, groups int)
TEXT ·decode8AVX2(SB), NOSPLIT, $0-32
	CODE_ARGS

loop:
	COPY4(0)
	COPY4(128)
	COPY4(256)
	COPY4(384)
	NEXT_GROUP
	JNZ loop
	VZEROUPPER
	RET

// SPLIT writes the magnitudes and the signs of the codes of eight rows in a plane, and
// adds the magnitudes of negative codes to sum.
#define SPLIT(at, sum) \
	VPXOR      at(SI), Y14, Y2   \
	VPABSB     Y2, Y3            \
	VPCMPGTB   Y2, Y15, Y2       \
	VMOVDQU    Y3, at(DI)        \
	VMOVDQU    Y2, at+512(DI)    \
	VPMADDUBSW Y2, Y3, Y3        \
	VPSUBW     Y3, sum, sum

#define SPLIT_PLANES(at) \
	SPLIT(at, Y0)       \
	SPLIT(at+32, Y1)    \
	SPLIT(at+64, Y0)    \
	SPLIT(at+96, Y1)

// func splitAVX2(codes *uint8, starts *int32, groups int)
// It goes from the last group to the first, because the results take twice the space
// of the codes. Y15 is zero, Y14 is the zero point of 128, Y13 is 16-bit ones.
TEXT ·splitAVX2(SB), NOSPLIT, $0-24
	MOVQ         codes+0(FP), SI
	MOVQ         starts+8(FP), DX
	MOVQ         groups+16(FP), CX
	MOVQ         CX, AX
	SHLQ         $6, AX
	ADDQ         AX, DX
	SHLQ         $3, AX // 512·groups
	LEAQ         (SI)(AX*2), DI
	ADDQ         AX, SI
	VPXOR        Y15, Y15, Y15
	VPBROADCASTD ·topBits(SB), Y14
	VMOVDQU      ·wordOnes(SB), Y13
	VPBROADCASTD ·startValue(SB), Y12

loop:
	SUBQ     $512, SI
	SUBQ     $1024, DI
	SUBQ     $64, DX
	VPXOR    Y0, Y0, Y0
	VPXOR    Y1, Y1, Y1
	SPLIT_PLANES(0)
	SPLIT_PLANES(128)
	SPLIT_PLANES(256)
	SPLIT_PLANES(384)
	VPMADDWD Y13, Y0, Y0
	VPMADDWD Y13, Y1, Y1
	VPADDD   Y12, Y0, Y0
	VPADDD   Y12, Y1, Y1
	VMOVDQU  Y0, (DX)
	VMOVDQU  Y1, 32(DX)
	DECQ     CX
	JNZ      loop
	VZEROUPPER
	RET

// PAIR_FACTORS converts the factors of eight rows to 16-bit integers, each twice.
#define PAIR_FACTORS(at) \
	VCVTPS2DQ at(SI), Y0          \
	VPSLLD    $16, Y0, Y1         \
	VPBLENDW  $0xaa, Y1, Y0, Y0   \
	VMOVDQU   Y0, at(SI)

// func pairFactorsAVX2(factors *float32, groups int)
TEXT ·pairFactorsAVX2(SB), NOSPLIT, $0-16
	MOVQ factors+0(FP), SI
	MOVQ groups+8(FP), CX

loop:
	PAIR_FACTORS(0)
	PAIR_FACTORS(32)
	PAIR_FACTORS(64)
	PAIR_FACTORS(96)
	ADDQ $128, SI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
