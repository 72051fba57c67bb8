// Macros that prefetch and unpack the codes of packed tiles with 256-bit vectors:
//
//	Y11, Y12 codes of plane p    Y8, Y9 codes of plane p+4    Y10 scratch
//	Y15 0x0F in every byte       Y13 the table or bitBytes

// The including file defines AHEAD, the prefetch distance in bytes.

#define PREFETCH2(src) \
	PREFETCHT0 AHEAD(src)    \
	PREFETCHT0 AHEAD+64(src)

#define PREFETCH4(src) \
	PREFETCH2(src)            \
	PREFETCHT0 AHEAD+128(src) \
	PREFETCHT0 AHEAD+192(src)

#define PREFETCH5(src) \
	PREFETCH4(src) \
	PREFETCHT0 AHEAD+256(src)

#define PREFETCH6(src) \
	PREFETCH5(src) \
	PREFETCHT0 AHEAD+320(src)

#define PREFETCH9(src) \
	PREFETCH6(src) \
	PREFETCHT0 AHEAD+384(src) \
	PREFETCHT0 AHEAD+448(src) \
	PREFETCHT0 AHEAD+512(src)

// NIBBLES unpacks two planes of 4-bit codes, LOOKUP replaces them by their entries in
// the table Y13, and FIVE unpacks planes p and p+4 of 5-bit codes.
#define NIBBLES(src, at) \
	VMOVDQU at(src), Y8     \
	VMOVDQU at+32(src), Y9  \
	VPAND   Y15, Y8, Y11    \
	VPAND   Y15, Y9, Y12    \
	VPSRLW  $4, Y8, Y8      \
	VPSRLW  $4, Y9, Y9      \
	VPAND   Y15, Y8, Y8     \
	VPAND   Y15, Y9, Y9

#define LOOKUP(src, at) \
	NIBBLES(src, at)     \
	VPSHUFB Y11, Y13, Y11 \
	VPSHUFB Y12, Y13, Y12 \
	VPSHUFB Y8, Y13, Y8   \
	VPSHUFB Y9, Y13, Y9

#define FIVE(src, offset, p) \
	NIBBLES(src, 64*p+64+offset)     \
	FIFTH(8*p+offset(src), Y11)      \
	FIFTH(8*p+4+offset(src), Y12)    \
	FIFTH(8*p+32+offset(src), Y8)    \
	FIFTH(8*p+36+offset(src), Y9)

// FIFTH sets the fifth bit of 32 codes from the 32 bits at mem. The including file defines
// TO_BIT4, which turns the bits that bitTests leaves in Y10 into bit 4 of their bytes. Y13 is
// bitBytes.
#define FIFTH(mem, codes) \
	VPBROADCASTD mem, Y10                 \
	VPSHUFB      Y13, Y10, Y10            \
	VPAND        ·bitTests(SB), Y10, Y10  \
	TO_BIT4                               \
	VPOR         Y10, codes, codes

// Scales (Y8, Y9) and mins (Y6, Y7) of a block with one group. They clobber Y10 to Y12.
#define F16_SCALE(src) \
	VCVTPH2PS (src), Y8   \
	VCVTPH2PS 16(src), Y9

// F16_OFFSET computes the min of Q4_1 and Q5_1, the negated offset.
#define F16_OFFSET(src) \
	VBROADCASTSS ·signBit(SB), Y10 \
	VCVTPH2PS 32(src), Y6          \
	VCVTPH2PS 48(src), Y7          \
	VXORPS    Y10, Y6, Y6          \
	VXORPS    Y10, Y7, Y7

// ZERO_MIN computes the min of I4Z, zero point · scale.
#define ZERO_MIN(src) \
	VPMOVZXBD 32(src), Y6  \
	VPMOVZXBD 40(src), Y7  \
	VCVTDQ2PS Y6, Y6       \
	VCVTDQ2PS Y7, Y7       \
	VMULPS    Y8, Y6, Y6   \
	VMULPS    Y9, Y7, Y7

// EXPONENT_SCALE computes 2^(e-128) for sixteen exponents e. For e below 2 the result
// is subnormal: bit 21 of the fraction, shifted left by e.
#define EXPONENT_SCALE(src) \
	EXPONENT((src), Y8)  \
	EXPONENT(8(src), Y9)

#define EXPONENT(mem, scale) \
	VPMOVZXBD    mem, scale                \
	VPBROADCASTD ·subnormalHalf(SB), Y10   \
	VPBROADCASTD ·two(SB), Y11             \
	VPSLLVD      scale, Y10, Y10           \
	VPCMPGTD     scale, Y11, Y11           \
	VPBROADCASTD ·one(SB), Y12             \
	VPSUBD       Y12, scale, scale         \
	VPSLLD       $23, scale, scale         \
	VPBLENDVB    Y11, Y10, scale, scale
