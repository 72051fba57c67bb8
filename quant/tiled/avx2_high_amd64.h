// Macros of the GEMV kernels that multiply a high plane alone, with 256-bit vectors, besides those in
// avx2_gemv_amd64.h. A group's codes are two runs of pairs of bits; three bits have a run of single
// bits behind them. planes_bits.go says which bits these are.

#define PREFETCH3(src) \
	PREFETCHT0 AHEAD(src)    \
	PREFETCHT0 AHEAD+64(src) \
	PREFETCHT0 AHEAD+128(src)

#define TO_LEFT3(y) VPSLLW $3, y, y
#define TO_LEFT2(y) VPSLLW $2, y, y
#define TO_LEFT1(y) VPSLLW $1, y, y
#define STAY(y)
#define TO_RIGHT1(y) VPSRLW $1, y, y

// THREE loads half of the nibbles of a plane to high, TWO those of two bits. Their low bits have any value.
#define THREE(src, pairs, bits, PAIRS_TO, BITS_TO, high) \
	VMOVDQU pairs(src), high             \
	PAIRS_TO(high)                       \
	VPAND   ·pairBits(SB), high, high    \
	VMOVDQU bits(src), Y10               \
	BITS_TO(Y10)                         \
	VPAND   ·topOfNibbles(SB), Y10, Y10  \
	VPOR    Y10, high, high

#define TWO(src, pairs, PAIRS_TO, high) \
	VMOVDQU pairs(src), high \
	PAIRS_TO(high)

// THREES and TWOS load a plane and the plane four further.
#define THREES(src, pairs, bits, PAIRS_TO, BITS_TO) \
	THREE(src, pairs, bits, PAIRS_TO, BITS_TO, Y8)       \
	THREE(src, pairs+32, bits+32, PAIRS_TO, BITS_TO, Y9)

#define TWOS(src, pairs, PAIRS_TO) \
	TWO(src, pairs, PAIRS_TO, Y8)    \
	TWO(src, pairs+32, PAIRS_TO, Y9)

// LOOKED_UP replaces nibbles by their entries in a table that has the same for all low bits, FILLED3 and
// FILLED2 their low bits by those whose mean is the middle.
#define LOOKED_UP \
	VPAND   Y15, Y8, Y11  \
	VPAND   Y15, Y9, Y12  \
	VPSRLW  $4, Y8, Y8    \
	VPSRLW  $4, Y9, Y9    \
	VPAND   Y15, Y8, Y8   \
	VPAND   Y15, Y9, Y9   \
	VPSHUFB Y11, Y13, Y11 \
	VPSHUFB Y12, Y13, Y12 \
	VPSHUFB Y8, Y13, Y8   \
	VPSHUFB Y9, Y13, Y9

#define FILLED3 \
	VPAND  ·keepThree(SB), Y8, Y11       \
	VPAND  ·keepThree(SB), Y9, Y12       \
	VPSRLW $4, Y8, Y8                    \
	VPSRLW $4, Y9, Y9                    \
	VPAND  ·keepThree(SB), Y8, Y8        \
	VPAND  ·keepThree(SB), Y9, Y9        \
	VPOR   ·onesInBytes(SB), Y8, Y8      \
	VPOR   ·onesInBytes(SB), Y9, Y9

#define FILLED2 \
	VPAND  ·keepTwo(SB), Y8, Y11         \
	VPAND  ·keepTwo(SB), Y9, Y12         \
	VPSRLW $4, Y8, Y8                    \
	VPSRLW $4, Y9, Y9                    \
	VPAND  ·keepTwo(SB), Y8, Y8          \
	VPAND  ·keepTwo(SB), Y9, Y9          \
	VPOR   ·onesInBytes(SB), Y11, Y11    \
	VPOR   ·onesInBytes(SB), Y12, Y12    \
	VPOR   ·twosInBytes(SB), Y8, Y8      \
	VPOR   ·twosInBytes(SB), Y9, Y9

#define GROUP_OF_THREE(src, offset, CODES, FIRST, NEXT_DOTS) \
	THREES(src, offset, offset+128, TO_LEFT1, TO_LEFT3)     \
	CODES                                             \
	FIRST(0)                                          \
	THREES(src, offset, offset+128, TO_RIGHT1, TO_LEFT2)    \
	CODES                                             \
	NEXT_DOTS(1)                                      \
	THREES(src, offset+64, offset+128, TO_LEFT1, TO_LEFT1)  \
	CODES                                             \
	NEXT_DOTS(2)                                      \
	THREES(src, offset+64, offset+128, TO_RIGHT1, STAY)  \
	CODES                                             \
	NEXT_DOTS(3)

#define GROUP_OF_TWO(src, offset, CODES, FIRST, NEXT_DOTS) \
	TWOS(src, offset, TO_LEFT2)    \
	CODES                       \
	FIRST(0)                    \
	TWOS(src, offset, STAY)     \
	CODES                       \
	NEXT_DOTS(1)                \
	TWOS(src, offset+64, TO_LEFT2) \
	CODES                       \
	NEXT_DOTS(2)                \
	TWOS(src, offset+64, STAY)  \
	CODES                       \
	NEXT_DOTS(3)

#define CLEAR_SUMS \
	VPXOR Y4, Y4, Y4 \
	VPXOR Y5, Y5, Y5

#define GROUP_THREE(src, offset) \
	GROUP_OF_THREE(src, offset, LOOKED_UP, FIRST_DOTS, DOTS) \
	SUM

#define GROUP_TWO(src, offset) \
	GROUP_OF_TWO(src, offset, LOOKED_UP, FIRST_DOTS, DOTS) \
	SUM

#define GROUP_THREE_SIGNED(src, offset) \
	CLEAR_SUMS                                                  \
	GROUP_OF_THREE(src, offset, LOOKED_UP, SIGNED_DOTS, SIGNED_DOTS)

#define GROUP_TWO_SIGNED(src, offset) \
	CLEAR_SUMS                                                \
	GROUP_OF_TWO(src, offset, LOOKED_UP, SIGNED_DOTS, SIGNED_DOTS)

#define GROUP4_THREE(src, offset) \
	GROUP_OF_THREE(src, offset, FILLED3, FIRST_DOTS, DOTS) \
	SUM_NIBBLES

#define GROUP4_TWO(src, offset) \
	GROUP_OF_TWO(src, offset, FILLED2, FIRST_DOTS, DOTS) \
	SUM_NIBBLES
