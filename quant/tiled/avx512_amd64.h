// Macros that unpack the codes of a group in a tile, and the scales in the head of
// its block. Registers that the kernels set once:
//
//	Z27  the high bits' mask: 0x3F in formats of 6 bits, or bytes of 0x10
//	Z29  the table of formats that have one, in every 128-bit lane
//	Z30  bytes of 0x0F
//	Z31  startValue

#define CONSTANTS \
	VPBROADCASTD ·startValue(SB), Z31  \
	VPBROADCASTD ·nibbleMask(SB), Z30

// NIBBLES splits a vector of nibbles; UNPACK does so from memory.
#define NIBBLES(low, high) \
	VPANDD Z30, high, low  \
	VPSRLW $4, high, high  \
	VPANDD Z30, high, high

#define UNPACK(mem, low, high) \
	VMOVDQU32 mem, high \
	NIBBLES(low, high)

// LOOKUP replaces each nibble n by table[n].
#define LOOKUP(low, high) \
	VPSHUFB low, Z29, low   \
	VPSHUFB high, Z29, high

// FIFTH adds the fifth bit of codes, of which mem has one a byte.
#define FIFTH(mem, codes) \
	KMOVQ  mem, K1              \
	VPADDB Z27, codes, K1, codes

// UNPACK6 splits a vector of nibbles of 6-bit codes. highA and highB hold the
// two high bits of low and of high at bits 4 and 5, among others.
#define UNPACK6(mem, low, high, highA, highB) \
	VMOVDQU32  mem, low              \
	VPSRLW     $4, low, high         \
	VPTERNLOGD $0xE4, Z30, highA, low  \
	VPTERNLOGD $0xE4, Z30, highB, high \
	VPANDD     Z27, low, low         \
	VPANDD     Z27, high, high

// EXPONENT makes half of 2^(e-127) of sixteen exponents e. Those below 2 are
// powers below the normal range: a bit of the fraction, moved e places.
#define EXPONENT(mem, scale, temp) \
	VPMOVZXBD   mem, scale                    \
	VPBROADCASTD ·subnormalHalf(SB), temp     \
	VPSLLVD     scale, temp, temp             \
	VPCMPUD.BCST $5, ·two(SB), scale, K1      \
	VPSUBD.BCST ·one(SB), scale, scale        \
	VPSLLD      $23, scale, scale             \
	VMOVDQA32   scale, K1, temp               \
	VMOVDQA32   temp, scale

// PAIRS spreads the 6-bit scales and mins of a block's eight groups, which
// begin at src, to a byte each: [8][16] scales, then [8][16] mins at dst.
// Destroys Z3-Z8 and wants 0x30 in the bytes of Z28. PAIRS_BY destroys other
// registers.
#define PAIRS(src, dst) PAIRS_BY(src, dst, Z3, Z4, Z5, Z6, Z7, Z8)

#define PAIRS_BY(src, dst, a, b, c, d, e, f) \
	VMOVDQU32  64(src), a       \
	VMOVDQU32  128(src), b      \
	VMOVDQU32  192(src), c      \
	NIBBLES(d, a)               \
	NIBBLES(e, b)               \
	VPSLLW     $4, c, f         \
	VPTERNLOGD $0xF8, Z28, f, d \
	VPTERNLOGD $0xF8, Z28, c, e \
	VMOVDQU32  d, (dst)         \
	VMOVDQU32  e, 64(dst)       \
	VPSLLW     $2, c, f         \
	VPTERNLOGD $0xF8, Z28, f, a \
	VPSRLW     $2, c, f         \
	VPTERNLOGD $0xF8, Z28, f, b \
	VMOVDQU32  a, 128(dst)      \
	VMOVDQU32  b, 192(dst)

// HIGH6 aligns the four fields of a vector of high bits with bits 4 and 5. The
// third is there already.
#define HIGH6(fields, first, second, fourth) \
	VPSLLW $4, fields, first  \
	VPSLLW $2, fields, second \
	VPSRLW $2, fields, fourth

// SIX spreads the 6-bit scales of the eight groups of a block at src to a byte
// each, [8][16] at dst. Destroys Z3-Z8 and wants 0x30 in the bytes of Z28.
#define SIX(src, dst) \
	VMOVDQU32    32(src), Z3       \
	NIBBLES(Z6, Z3)                \
	VMOVDQU      96(src), Y5       \
	VPSLLW       $4, Y5, Y7        \
	VPSLLW       $2, Y5, Y8        \
	VINSERTI64X4 $1, Y8, Z7, Z7    \
	VPTERNLOGD   $0xF8, Z28, Z7, Z6 \
	VPSRLW       $2, Y5, Y8        \
	VINSERTI64X4 $1, Y8, Z5, Z5    \
	VPTERNLOGD   $0xF8, Z28, Z5, Z3 \
	VMOVDQU32    Z6, (dst)         \
	VMOVDQU32    Z3, 64(dst)

// SIX_SCALE takes the next of these factors of the block's scale.
#define SIX_SCALE(factors, block, scale) \
	VPMOVZXBD    (factors), scale             \
	VPSUBD.BCST  ·thirtyTwo(SB), scale, scale \
	VCVTDQ2PS    scale, scale                 \
	VMULPS       block, scale, scale          \
	ADDQ         $16, factors
