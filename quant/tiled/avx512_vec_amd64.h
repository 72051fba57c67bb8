// Vector kernels: a tile of sixteen rows times one token, straight from memory,
// which is what bounds them. Codes never leave the registers.
//
//	DI sums   SI tile   CX blocks
//	R8 x      R9 dx     R10 shift   R11 start
//	Z0 the sums         Z1, Z2 integer sums of a group's halves
//	Z24 scale           Z25 startFloat times it     Z26 min
//
// Formats with a min begin with startBits, the others where the token says.

// How far ahead of their use tiles are asked for. Hardware looks ahead too, but
// not across pages and not from a row's first bytes. Less comes too late and
// much more drives away what the hardware fetched: BenchmarkVec was best with
// 2560 to 2816, while 1024 and 8192 lost a tenth.
#define AHEAD 2816

#define VEC_ARGS \
	MOVQ a+0(FP), AX             \
	MOVQ vecArgs_sums(AX), DI    \
	MOVQ vecArgs_tile(AX), SI    \
	MOVQ vecArgs_x(AX), R8       \
	MOVQ vecArgs_dx(AX), R9      \
	MOVQ vecArgs_shift(AX), R10  \
	MOVQ vecArgs_start(AX), R11  \
	MOVQ vecArgs_blocks(AX), CX  \
	MOVQ vecArgs_table(AX), AX   \
	VPXORD Z0, Z0, Z0            \
	CONSTANTS

#define VEC_RETURN \
	VMOVUPS Z0, (DI) \
	VZEROUPPER       \
	RET

#define PREFETCH4 \
	PREFETCHT1 AHEAD(SI)     \
	PREFETCHT1 AHEAD+64(SI)  \
	PREFETCHT1 AHEAD+128(SI) \
	PREFETCHT1 AHEAD+192(SI)

#define PREFETCH5 \
	PREFETCH4 \
	PREFETCHT1 AHEAD+256(SI)

#define PREFETCH6 \
	PREFETCH5 \
	PREFETCHT1 AHEAD+320(SI)

#define PREFETCH9 \
	PREFETCH6 \
	PREFETCHT1 AHEAD+384(SI) \
	PREFETCHT1 AHEAD+448(SI) \
	PREFETCHT1 AHEAD+512(SI)

// START and BEGIN begin the sum of a group.
#define START \
	VPBROADCASTD (R11), Z1 \
	VPXORD       Z2, Z2, Z2

#define BEGIN \
	VMOVDQA32 Z31, Z1 \
	VPXORD    Z2, Z2, Z2

// DOT adds the products of plane p of both halves of a group.
#define DOT(p, low, high) \
	VPDPBUSD.BCST 4*(p)(R8), low, Z1 \
	VPDPBUSD.BCST 4*p+16(R8), high, Z2

#define LOAD_DOT8(offset, p) \
	VMOVDQU32 64*p+offset(SI), Z4     \
	VMOVDQU32 64*p+256+offset(SI), Z5 \
	DOT(p, Z4, Z5)

// The codes of a group at offset.
#define GROUP4(offset) \
	UNPACK(offset(SI), Z4, Z5)      \
	UNPACK(offset+64(SI), Z6, Z7)   \
	DOT(0, Z4, Z5)                  \
	UNPACK(offset+128(SI), Z8, Z9)  \
	DOT(1, Z6, Z7)                  \
	UNPACK(offset+192(SI), Z10, Z11) \
	DOT(2, Z8, Z9)                  \
	DOT(3, Z10, Z11)

#define GROUP_TABLE(offset) \
	UNPACK(offset(SI), Z4, Z5)      \
	LOOKUP(Z4, Z5)                  \
	UNPACK(offset+64(SI), Z6, Z7)   \
	LOOKUP(Z6, Z7)                  \
	DOT(0, Z4, Z5)                  \
	UNPACK(offset+128(SI), Z8, Z9)  \
	LOOKUP(Z8, Z9)                  \
	DOT(1, Z6, Z7)                  \
	UNPACK(offset+192(SI), Z10, Z11) \
	LOOKUP(Z10, Z11)                \
	DOT(2, Z8, Z9)                  \
	DOT(3, Z10, Z11)

#define UNPACK5(offset, p) \
	UNPACK(64*p+64+offset(SI), Z4, Z5) \
	FIFTH(8*p+offset(SI), Z4)          \
	FIFTH(8*p+32+offset(SI), Z5)       \
	DOT(p, Z4, Z5)

#define GROUP5(offset) \
	UNPACK5(offset, 0) \
	UNPACK5(offset, 1) \
	UNPACK5(offset, 2) \
	UNPACK5(offset, 3)

#define GROUP8(offset) \
	LOAD_DOT8(offset, 0) \
	LOAD_DOT8(offset, 1) \
	LOAD_DOT8(offset, 2) \
	LOAD_DOT8(offset, 3)

// END adds a group's sum times the scale in Z24; ENDMIN what a min adds.
#define END \
	VPADDD           Z2, Z1, Z1   \
	VMULPS           Z31, Z24, Z25 \
	VFMSUB213PS      Z25, Z24, Z1 \
	VFMADD231PS.BCST (R9), Z1, Z0 \
	ADDQ             $32, R8      \
	ADDQ             $4, R9

#define NEXT_START ADDQ $4, R11

#define END_MIN \
	VFMADD231PS.BCST (R10), Z26, Z0 \
	ADDQ             $4, R10

#define F16_SCALE VCVTPH2PS (SI), Z24

// In this format the min is a zero times the scale.
#define ZERO_MIN \
	VPMOVZXBD 32(SI), Z26   \
	VCVTDQ2PS Z26, Z26      \
	VMULPS    Z24, Z26, Z26

// In these formats the offset is added: the min is minus it.
#define F16_OFFSET \
	VCVTPH2PS   32(SI), Z26 \
	VPXORD.BCST ·signBit(SB), Z26, Z26
