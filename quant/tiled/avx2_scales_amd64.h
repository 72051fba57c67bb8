// Macros that decode the scales and mins of a block of 256 elements for 16 rows to float32. A vector
// holds 8 rows. The block's head is at SI; a head has 16 numbers of a kind before the next kind.

// TIMES converts integers to float32 and stores them times scale.
#define TIMES(values, scale, mem) \
	VCVTDQ2PS values, values        \
	VMULPS    scale, values, values \
	VMOVUPS   values, mem

// PAIRS_LOAD loads what PAIR_ROWS needs: masks, the block's scales (Y4, Y7) and mins (Y5, Y8).
#define PAIRS_LOAD \
	VPBROADCASTD ·dwordNibble(SB), Y15 \
	VPBROADCASTD ·dwordHigh(SB), Y14   \
	VCVTPH2PS    (SI), Y4              \
	VCVTPH2PS    32(SI), Y5            \
	VCVTPH2PS    16(SI), Y7            \
	VCVTPH2PS    48(SI), Y8

// PAIR decodes the scales and mins of one group for 8 rows. low has the low nibbles
// of both; Y2 and Y3 have the high bits of scales and mins in bits 4 and 5.
#define PAIR(low, scale, min, scales, mins) \
	VPMOVZXBD low, Y1         \
	VPAND     Y14, Y2, Y2     \
	VPAND     Y14, Y3, Y3     \
	VPAND     Y15, Y1, Y0     \
	VPSRLD    $4, Y1, Y1      \
	VPOR      Y2, Y0, Y0      \
	VPOR      Y3, Y1, Y1      \
	TIMES(Y0, scale, scales)  \
	TIMES(Y1, min, mins)

// PAIR_ROWS applies PAIR to groups g and g+4, which share the bytes of their high bits.
#define PAIR_ROWS(byte, float, scale, min, scales, mins) \
	VPMOVZXBD byte+192(SI), Y6                                          \
	VPSLLD    $4, Y6, Y2                                                \
	VPSLLD    $2, Y6, Y3                                                \
	PAIR(byte+64(SI), scale, min, float(scales), float(mins))           \
	VMOVDQA   Y6, Y2                                                    \
	VPSRLD    $2, Y6, Y3                                                \
	PAIR(byte+128(SI), scale, min, float+256(scales), float+256(mins))

// SIX_SCALE8 decodes the scale of one group for 8 rows: a nibble of low and a 2-bit field of
// high, less 32, times the block's scale.
#define SIX_SCALE8(low, nibble, high, field, scale, mem) \
	VPMOVZXBD low, Y0         \
	VPSRLD    $(4*nibble), Y0, Y0 \
	VPAND     Y15, Y0, Y0     \
	VPMOVZXBD high, Y1        \
	VPSRLD    $(2*field), Y1, Y1  \
	VPSLLD    $4, Y1, Y1      \
	VPAND     Y14, Y1, Y1     \
	VPOR      Y1, Y0, Y0      \
	VPSUBD    Y13, Y0, Y0     \
	TIMES(Y0, scale, mem)

#define SIX_ROWS(low, nibble, high, field, group, scales) \
	SIX_SCALE8(low(SI), nibble, high(SI), field, Y4, 64*(group)(scales))         \
	SIX_SCALE8(low+8(SI), nibble, high+8(SI), field, Y5, 64*(group)+32(scales))

// SIX_GROUPS decodes the head of an IQ4_XS block: 8 scales of 6 bits, less 32, times the block's scale.
#define SIX_GROUPS(scales) \
	VPBROADCASTD ·dwordNibble(SB), Y15 \
	VPBROADCASTD ·dwordHigh(SB), Y14   \
	VPBROADCASTD ·thirtyTwo(SB), Y13   \
	VCVTPH2PS    (SI), Y4              \
	VCVTPH2PS    16(SI), Y5            \
	SIX_ROWS(32, 0, 96, 0, 0, scales)  \
	SIX_ROWS(48, 0, 112, 0, 1, scales) \
	SIX_ROWS(64, 0, 96, 1, 2, scales)  \
	SIX_ROWS(80, 0, 112, 1, 3, scales) \
	SIX_ROWS(32, 1, 96, 2, 4, scales)  \
	SIX_ROWS(48, 1, 112, 2, 5, scales) \
	SIX_ROWS(64, 1, 96, 3, 6, scales)  \
	SIX_ROWS(80, 1, 112, 3, 7, scales)
