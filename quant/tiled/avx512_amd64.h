// Macros that unpack the codes of a group and the scales in the head of a tile block
// with AVX-512. They use these registers:
//
//	Z27  0x3F in every byte for 6-bit codes, 0x10 for 5-bit codes
//	Z28  0x30 in every byte, for 6-bit scales
//	Z29  the decoding table in every 128-bit lane, for formats with one
//	Z30  0x0F in every byte
//	Z31  startFloat

#define CONSTANTS \
	VPBROADCASTD ·startValue(SB), Z31  \
	VPBROADCASTD ·nibbleMask(SB), Z30

// NIBBLES splits the bytes in high into nibbles; UNPACK loads the bytes from mem.
#define NIBBLES(low, high) \
	VPANDD Z30, high, low  \
	VPSRLW $4, high, high  \
	VPANDD Z30, high, high

#define UNPACK(mem, low, high) \
	VMOVDQU32 mem, high \
	NIBBLES(low, high)

// LOOKUP replaces every nibble by its table entry.
#define LOOKUP(low, high) \
	VPSHUFB low, Z29, low   \
	VPSHUFB high, Z29, high

// FIFTH sets the fifth bit of 64 codes from the 64-bit mask at mem.
#define FIFTH(mem, codes) \
	KMOVQ  mem, K1              \
	VPADDB Z27, codes, K1, codes

// UNPACK6 unpacks 6-bit codes from the nibbles at mem. Bits 4 and 5 of highA and highB
// are the high bits of low and high; their other bits may have any value.
#define UNPACK6(mem, low, high, highA, highB) \
	VMOVDQU32  mem, low              \
	VPSRLW     $4, low, high         \
	VPTERNLOGD $0xE4, Z30, highA, low  \
	VPTERNLOGD $0xE4, Z30, highB, high \
	VPANDD     Z27, low, low         \
	VPANDD     Z27, high, high

// EXPONENT computes 2^(e-128) for sixteen exponents e. For e below 2 the result is
// subnormal: bit 21 of the fraction, shifted left by e.
#define EXPONENT(mem, scale, temp) \
	VPMOVZXBD   mem, scale                    \
	VPBROADCASTD ·subnormalHalf(SB), temp     \
	VPSLLVD     scale, temp, temp             \
	VPCMPUD.BCST $5, ·two(SB), scale, K1      \
	VPSUBD.BCST ·one(SB), scale, scale        \
	VPSLLD      $23, scale, scale             \
	VMOVDQA32   scale, K1, temp               \
	VMOVDQA32   temp, scale

// PAIRS unpacks the 6-bit scales and mins of the Q4_K or Q5_K block at src to bytes at
// dst: [8][16] scales, then [8][16] mins. It clobbers Z3-Z8. PAIRS_BY clobbers the
// given registers instead.
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

// HIGH6 moves the four 2-bit fields of high bits to bits 4 and 5. The third field is
// there already.
#define HIGH6(fields, first, second, fourth) \
	VPSLLW $4, fields, first  \
	VPSLLW $2, fields, second \
	VPSRLW $2, fields, fourth

// SIX unpacks the 6-bit scales of the IQ4_XS block at src to bytes at dst, [8][16]. It
// clobbers Z3-Z8. SIX_BY clobbers the given registers instead; ya is the lower half of za.
#define SIX(src, dst) SIX_BY(src, dst, Z3, Z6, Y5, Z5, Y7, Z7, Y8)

#define SIX_BY(src, dst, high, low, ya, za, yb, zb, yc) \
	VMOVDQU32    32(src), high       \
	NIBBLES(low, high)               \
	VMOVDQU32    96(src), ya         \
	VPSLLW       $4, ya, yb          \
	VPSLLW       $2, ya, yc          \
	VINSERTI64X4 $1, yc, zb, zb      \
	VPTERNLOGD   $0xF8, Z28, zb, low \
	VPSRLW       $2, ya, yc          \
	VINSERTI64X4 $1, yc, za, za      \
	VPTERNLOGD   $0xF8, Z28, za, high \
	VMOVDQU32    low, (dst)          \
	VMOVDQU32    high, 64(dst)

// SIX_SCALE computes the scale of the next group: (factor - 32)·block.
#define SIX_SCALE(factors, block, scale) \
	VPMOVZXBD    (factors), scale             \
	VPSUBD.BCST  ·thirtyTwo(SB), scale, scale \
	VCVTDQ2PS    scale, scale                 \
	VMULPS       block, scale, scale          \
	ADDQ         $16, factors
