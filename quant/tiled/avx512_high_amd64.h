// Macros of the GEMV kernels that multiply a high plane alone, with AVX-512, besides those in
// avx512_gemv_amd64.h. A group's codes are two runs of pairs of bits; three bits have a run of single
// bits behind them. planes_bits.go says which bits these are.
//
//	Z8 pairs   Z9 bits   Z4 nibbles of a plane, whose low bits have any value   Z5, Z6 scratch
//	Z17 0x66 in every byte
//	Z14 the high bits in every byte   Z15 and Z16 the low bits of low and high nibbles

#define PREFETCH3(src) \
	FETCH AHEAD(src)    \
	FETCH AHEAD+64(src) \
	FETCH AHEAD+128(src)

#define MERGE(bits) VPTERNLOGD $0xE4, Z17, bits, Z4

// THREES and TWOS call PRODUCT for each plane of a group.
#define THREES(src, offset, PRODUCT) \
	VMOVDQU32 offset(src), Z8     \
	VMOVDQU32 offset+128(src), Z9 \
	VPSLLW    $1, Z8, Z4          \
	VPSLLW    $3, Z9, Z5          \
	MERGE(Z5)                     \
	PRODUCT(0)                    \
	VPSRLW    $1, Z8, Z4          \
	VPSLLW    $2, Z9, Z5          \
	MERGE(Z5)                     \
	PRODUCT(1)                    \
	VMOVDQU32 offset+64(src), Z8  \
	VPSLLW    $1, Z8, Z4          \
	VPSLLW    $1, Z9, Z5          \
	MERGE(Z5)                     \
	PRODUCT(2)                    \
	VPSRLW    $1, Z8, Z4          \
	MERGE(Z9)                     \
	PRODUCT(3)

#define TWOS(src, offset, PRODUCT) \
	VMOVDQU32 offset(src), Z8    \
	VPSLLW    $2, Z8, Z4         \
	PRODUCT(0)                   \
	VMOVDQA32 Z8, Z4             \
	PRODUCT(1)                   \
	VMOVDQU32 offset+64(src), Z8 \
	VPSLLW    $2, Z8, Z4         \
	PRODUCT(2)                   \
	VMOVDQA32 Z8, Z4             \
	PRODUCT(3)

// LOOKED_UP multiplies the entries of nibbles in a table that has the same for all low bits, FILLED nibbles
// with the given low bits.
#define LOOKED_UP(p) \
	NIBBLES(Z6, Z4) \
	LOOKUP(Z6, Z4)  \
	DOT(p, Z6, Z4)

#define FILLED(p) \
	VMOVDQA32  Z4, Z6               \
	VPSRLW     $4, Z4, Z4           \
	VPTERNLOGD $0xEA, Z15, Z14, Z6  \
	VPTERNLOGD $0xEA, Z16, Z14, Z4  \
	DOT(p, Z6, Z4)

#define GROUP_THREE(src, offset) THREES(src, offset, LOOKED_UP)
#define GROUP_TWO(src, offset) TWOS(src, offset, LOOKED_UP)
#define GROUP4_THREE(src, offset) THREES(src, offset, FILLED)
#define GROUP4_TWO(src, offset) TWOS(src, offset, FILLED)
