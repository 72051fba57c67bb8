// GEMV kernels multiply tiles of sixteen rows with one token. Memory bandwidth limits
// them, so they read the packed codes once and unpack them in registers only.
//
// They read two runs of tiles in turn, a group of each: two streams keep more
// reads in flight. BenchmarkVec reads 5 to 15 % more a second than with one stream.
//
//	DI sums   DX tiles of a run   CX blocks   AX groups of a block
//	R8 x      R9 dx     R10 shift   R11 start
//	SI, BX tiles of the runs        Z0, Z20 their sums
//	R12, R13 what is left of their scales, in blocks with more than one
//	Z12, Z13 and Z21, Z22 scale and min of their blocks
//	Z1, Z2 integer sums of a group's halves
//	Z24 scale           Z25 startFloat times it     Z26 min
//
// Formats with a min begin with startBits, the others where the token says.

// The prefetch distance in bytes. The hardware prefetcher does not cross pages and
// starts late in a row. A shorter distance prefetches too late; a much longer one
// evicts what the hardware fetched. With one run of tiles BenchmarkVec was fastest
// with 2560 to 2816, and a tenth slower with 1024 and 8192.
#define AHEAD 2816

#define GEMV_ARGS \
	MOVQ a+0(FP), R15             \
	MOVQ smallArgs_sums(R15), DI    \
	MOVQ smallArgs_tile(R15), SI    \
	MOVQ smallArgs_second(R15), BX  \
	MOVQ smallArgs_pairs(R15), DX   \
	MOVQ smallArgs_table(R15), AX   \
	CONSTANTS

// GEMV_TILES begins a tile of each run.
#define GEMV_TILES \
	MOVQ smallArgs_x(R15), R8       \
	MOVQ smallArgs_dx(R15), R9      \
	MOVQ smallArgs_shift(R15), R10  \
	MOVQ smallArgs_start(R15), R11  \
	MOVQ smallArgs_blocks(R15), CX  \
	VPXORD Z0, Z0, Z0             \
	VPXORD Z20, Z20, Z20

// GEMV_NEXT ends them and goes on at tiles, or returns.
#define GEMV_NEXT \
	MOVQ smallArgs_apart(R15), AX \
	VMOVUPS Z0, (DI)            \
	VMOVUPS Z20, (DI)(AX*1)     \
	ADDQ $64, DI                \
	DECQ DX                     \
	JNZ  tiles                  \
	VZEROUPPER                  \
	RET

#define PREFETCH4(src) \
	PREFETCHT1 AHEAD(src)     \
	PREFETCHT1 AHEAD+64(src)  \
	PREFETCHT1 AHEAD+128(src) \
	PREFETCHT1 AHEAD+192(src)

#define PREFETCH5(src) \
	PREFETCH4(src) \
	PREFETCHT1 AHEAD+256(src)

#define PREFETCH6(src) \
	PREFETCH5(src) \
	PREFETCHT1 AHEAD+320(src)

#define PREFETCH9(src) \
	PREFETCH6(src) \
	PREFETCHT1 AHEAD+384(src) \
	PREFETCHT1 AHEAD+448(src) \
	PREFETCHT1 AHEAD+512(src)

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

#define LOAD_DOT8(src, offset, p) \
	VMOVDQU32 64*p+offset(src), Z4     \
	VMOVDQU32 64*p+256+offset(src), Z5 \
	DOT(p, Z4, Z5)

// The codes of a group at offset.
#define GROUP4(src, offset) \
	UNPACK(offset(src), Z4, Z5)      \
	UNPACK(offset+64(src), Z6, Z7)   \
	DOT(0, Z4, Z5)                  \
	UNPACK(offset+128(src), Z8, Z9)  \
	DOT(1, Z6, Z7)                  \
	UNPACK(offset+192(src), Z10, Z11) \
	DOT(2, Z8, Z9)                  \
	DOT(3, Z10, Z11)

#define GROUP_TABLE(src, offset) \
	UNPACK(offset(src), Z4, Z5)      \
	LOOKUP(Z4, Z5)                  \
	UNPACK(offset+64(src), Z6, Z7)   \
	LOOKUP(Z6, Z7)                  \
	DOT(0, Z4, Z5)                  \
	UNPACK(offset+128(src), Z8, Z9)  \
	LOOKUP(Z8, Z9)                  \
	DOT(1, Z6, Z7)                  \
	UNPACK(offset+192(src), Z10, Z11) \
	LOOKUP(Z10, Z11)                \
	DOT(2, Z8, Z9)                  \
	DOT(3, Z10, Z11)

#define UNPACK5(src, offset, p) \
	UNPACK(64*p+64+offset(src), Z4, Z5) \
	FIFTH(8*p+offset(src), Z4)          \
	FIFTH(8*p+32+offset(src), Z5)       \
	DOT(p, Z4, Z5)

#define GROUP5(src, offset) \
	UNPACK5(src, offset, 0) \
	UNPACK5(src, offset, 1) \
	UNPACK5(src, offset, 2) \
	UNPACK5(src, offset, 3)

#define GROUP8(src, offset) \
	LOAD_DOT8(src, offset, 0) \
	LOAD_DOT8(src, offset, 1) \
	LOAD_DOT8(src, offset, 2) \
	LOAD_DOT8(src, offset, 3)

// END adds a group's sum times the scale in Z24; END_MIN what a min adds.
#define END(sums) \
	VPADDD           Z2, Z1, Z1   \
	VMULPS           Z31, Z24, Z25 \
	VFMSUB213PS      Z25, Z24, Z1 \
	VFMADD231PS.BCST (R9), Z1, sums

#define END_MIN(sums) VFMADD231PS.BCST (R10), Z26, sums

// NEXT advances to the token's next group, and both runs by the given number of bytes.
#define NEXT(bytes) \
	ADDQ $32, R8    \
	ADDQ $4, R9     \
	ADDQ $bytes, SI \
	ADDQ $bytes, BX

#define NEXT_START ADDQ $4, R11
#define NEXT_MIN ADDQ $4, R10

#define F16_SCALE(src) VCVTPH2PS (src), Z24

// In this format the min is a zero times the scale.
#define ZERO_MIN(src) \
	VPMOVZXBD 32(src), Z26   \
	VCVTDQ2PS Z26, Z26      \
	VMULPS    Z24, Z26, Z26

// In these formats the offset is added: the min is minus it.
#define F16_OFFSET(src) \
	VCVTPH2PS   32(src), Z26 \
	VPXORD.BCST ·signBit(SB), Z26, Z26
