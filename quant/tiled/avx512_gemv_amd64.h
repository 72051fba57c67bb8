// Macros of the GEMV kernels with AVX-512. With i the integer sum of a group, the
// kernels compute
//
//	sums[row] = Σ i·scale·d + shift·min     over the groups
//
// for packed tiles of 16 rows and one token. They unpack codes in registers, so memory
// bandwidth is the limit.
//
// A kernel processes two runs of tiles at once and alternates between their groups.
// Two read streams keep more cache misses outstanding than one: BenchmarkVec reads 5
// to 15 % more bytes per second.
//
//	DI sums   DX tiles left in a run   CX blocks left   AX groups left in a block
//	R8 x      R9 dx     R10 shift   R11 start   R15 args
//	SI, BX codes of the two tiles   Z0, Z20 their sums
//	R12, R13 remaining scales or factors of their blocks, in superblocks
//	Z12, Z13 and Z21, Z22 scale and min of their superblocks
//	Z1, Z2 integer sums of the halves of a group
//	Z24 scale           Z25 startFloat·scale        Z26 min
//
// Integer sums start with startBits in formats with a min, otherwise with the token's
// start.

// The including file defines AHEAD, the prefetch distance in bytes, and FETCH, the instruction.
// The hardware prefetcher stops at page boundaries and starts late in each tile. A shorter
// distance is too late; a much longer one evicts lines that the hardware prefetched.

#define GEMV_ARGS \
	MOVQ a+0(FP), R15             \
	MOVQ smallArgs_sums(R15), DI    \
	MOVQ smallArgs_tile(R15), SI    \
	MOVQ smallArgs_second(R15), BX  \
	MOVQ smallArgs_pairs(R15), DX   \
	MOVQ smallArgs_table(R15), AX   \
	CONSTANTS

// GEMV_TILES starts the next tile of each run.
#define GEMV_TILES \
	MOVQ smallArgs_x(R15), R8       \
	MOVQ smallArgs_dx(R15), R9      \
	MOVQ smallArgs_shift(R15), R10  \
	MOVQ smallArgs_start(R15), R11  \
	MOVQ smallArgs_blocks(R15), CX  \
	VPXORD Z0, Z0, Z0             \
	VPXORD Z20, Z20, Z20

// GEMV_NEXT stores the sums of both tiles and jumps to the label tiles, or returns
// after the last tiles.
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
	FETCH AHEAD(src)     \
	FETCH AHEAD+64(src)  \
	FETCH AHEAD+128(src) \
	FETCH AHEAD+192(src)

#define PREFETCH5(src) \
	PREFETCH4(src) \
	FETCH AHEAD+256(src)

#define PREFETCH6(src) \
	PREFETCH5(src) \
	FETCH AHEAD+320(src)

#define PREFETCH9(src) \
	PREFETCH6(src) \
	FETCH AHEAD+384(src) \
	FETCH AHEAD+448(src) \
	FETCH AHEAD+512(src)

// START sets the integer sums of a group to the token's start, BEGIN to startBits.
#define START \
	VPBROADCASTD (R11), Z1 \
	VPXORD       Z2, Z2, Z2

#define BEGIN \
	VMOVDQA32 Z31, Z1 \
	VPXORD    Z2, Z2, Z2

// DOT adds the products of planes p and p+4 of a group to Z1 and Z2.
#define DOT(p, low, high) \
	VPDPBUSD.BCST 4*(p)(R8), low, Z1 \
	VPDPBUSD.BCST 4*p+16(R8), high, Z2

#define LOAD_DOT8(src, offset, p) \
	VMOVDQU32 64*p+offset(src), Z4     \
	VMOVDQU32 64*p+256+offset(src), Z5 \
	DOT(p, Z4, Z5)

// GROUP4, GROUP_TABLE, GROUP5 and GROUP8 compute the integer sums of a group whose
// codes start at offset(src).
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

// END computes sums += i·scale·d with the scale in Z24; END_MIN adds shift·min.
#define END(sums) \
	VPADDD           Z2, Z1, Z1   \
	VMULPS           Z31, Z24, Z25 \
	VFMSUB213PS      Z25, Z24, Z1 \
	VFMADD231PS.BCST (R9), Z1, sums

#define END_MIN(sums) VFMADD231PS.BCST (R10), Z26, sums

// NEXT advances to the next group of the token and of both tiles; bytes is the size of
// a group in a tile.
#define NEXT(bytes) \
	ADDQ $32, R8    \
	ADDQ $4, R9     \
	ADDQ $bytes, SI \
	ADDQ $bytes, BX

#define NEXT_START ADDQ $4, R11
#define NEXT_MIN ADDQ $4, R10

#define F16_SCALE(src) VCVTPH2PS (src), Z24
#define EXPONENT_SCALE(src) EXPONENT((src), Z24, Z3)

// ZERO_MIN computes the min of I4Z, zero point · scale.
#define ZERO_MIN(src) \
	VPMOVZXBD 32(src), Z26   \
	VCVTDQ2PS Z26, Z26      \
	VMULPS    Z24, Z26, Z26

// F16_OFFSET computes the min of Q4_1 and Q5_1, the negated offset.
#define F16_OFFSET(src) \
	VCVTPH2PS   32(src), Z26 \
	VPXORD.BCST ·signBit(SB), Z26, Z26
