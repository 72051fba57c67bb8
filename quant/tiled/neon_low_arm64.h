// Macros of the decoders of low-bit formats with NEON.
//
//	V22, V24 1 in each 16-bit lane and byte   V23 14 in each 16-bit lane   V25 15 in each byte
//	V26 1 in each 32-bit lane                 V28-V31 scales of the block
//	V16-V21, V27 and R13 are scratch of the macros

#define LOW_ARGS \
	MOVD  a+0(FP), R13               \
	MOVD  lowArgs_codes(R13), R0     \
	MOVD  lowArgs_scales(R13), R1    \
	MOVD  lowArgs_factors(R13), R2   \
	MOVD  lowArgs_tile(R13), R3      \
	MOVD  lowArgs_book(R13), R4      \
	MOVD  lowArgs_blocks(R13), R5    \
	MOVD  $·lowConstantsNEON(SB), R11 \
	VMOVI $1, V24.B16                \
	VMOVI $15, V25.B16               \
	MOVD  $1, R13                    \
	VDUP  R13, V22.H8                \
	VDUP  R13, V26.S4                \
	MOVD  $14, R13                   \
	VDUP  R13, V23.H8

// NEGATE negates bytes where mask is set.
#define NEGATE(bytes, mask) \
	VEOR mask.B16, bytes.B16, bytes.B16 \
	VSUB mask.B16, bytes.B16, bytes.B16

// BLOCK_SCALE loads the binary16 scales at an offset of the block, times a float32.
#define BLOCK_SCALE(at, times) \
	ADD  $at, R3, R13            \
	VLD1 (R13), [V16.H8, V17.H8] \
	HALF_SCALES(times)

#define HALF_SCALES(times) \
	FCVTL4(16, 28)      \
	FCVTL24(16, 29)     \
	FCVTL4(17, 30)      \
	FCVTL24(17, 31)     \
	MOVD $times, R13    \
	VDUP R13, V27.S4    \
	FMUL4(27, 28, 28)   \
	FMUL4(27, 29, 29)   \
	FMUL4(27, 30, 30)   \
	FMUL4(27, 31, 31)

// SPREAD_SCALE is BLOCK_SCALE for scales in the upper nibbles of four words of 16 bits.
#define SPREAD_SCALE(at) \
	ADD  $at, R3, R13                              \
	VEOR V16.B16, V16.B16, V16.B16                 \
	VEOR V17.B16, V17.B16, V17.B16                 \
	SCALE_NIBBLE(0)                                \
	SCALE_NIBBLE(4)                                \
	SCALE_NIBBLE(8)                                \
	SCALE_NIBBLE(12)                               \
	HALF_SCALES(0x3E000000)

#define SCALE_NIBBLE(place) \
	VLD1.P 32(R13), [V18.H8, V19.H8] \
	VUSHR  $12, V18.H8, V18.H8       \
	VUSHR  $12, V19.H8, V19.H8       \
	VSHL   $place, V18.H8, V18.H8    \
	VSHL   $place, V19.H8, V19.H8    \
	VORR   V18.B16, V16.B16, V16.B16 \
	VORR   V19.B16, V17.B16, V17.B16

#define SAME_SCALES VST1.P [V28.S4, V29.S4, V30.S4, V31.S4], 64(R1)

// STORE_SCALES stores the integers in V16-V19 times the block's scale, STORE_FACTORS the integers.
#define STORE_SCALES \
	FLOATS(16, 17, 18, 19) \
	FMUL4(28, 16, 16)      \
	FMUL4(29, 17, 17)      \
	FMUL4(30, 18, 18)      \
	FMUL4(31, 19, 19)      \
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R1)

#define STORE_FACTORS \
	FLOATS(16, 17, 18, 19) \
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R2)

// WORD_SCALES stores 2s+1 times the scale, for s in the top four bits of the words before bytes from the address.
#define WORD_SCALES(address, before) \
	SUB   $before, address, R13                            \
	VLD1  (R13), [V16.S4, V17.S4, V18.S4, V19.S4]          \
	TOP_ODD(V16) \
	TOP_ODD(V17) \
	TOP_ODD(V18) \
	TOP_ODD(V19) \
	STORE_SCALES

#define TOP_ODD(words) \
	VUSHR $27, words.S4, words.S4       \
	VORR  V26.B16, words.B16, words.B16

// NIBBLE_ODD replaces nibbles s of bytes by 2s+1 and widens them to V16-V19.
#define NIBBLE_ODD(bytes) \
	VSHL $1, bytes.B16, bytes.B16       \
	VORR V24.B16, bytes.B16, bytes.B16  \
	LANES4(bytes, V21, V16, V17, V18, V19)

// NIBBLE_FACTORS stores the factors 2s+1 of the low and the high nibbles s.
#define NIBBLE_FACTORS(address) \
	VLD1  (address), [V20.B16]         \
	VAND  V25.B16, V20.B16, V27.B16    \
	NIBBLE_ODD(V27)                    \
	STORE_FACTORS                      \
	VUSHR $4, V20.B16, V20.B16         \
	NIBBLE_ODD(V20)                    \
	STORE_FACTORS

// SHARED_NIBBLE_SCALES stores scales from the low or, in every second group, the high nibbles at R10.
#define SHARED_NIBBLE_SCALES \
	VLD1  (R10), [V27.B16]          \
	VAND  V25.B16, V27.B16, V20.B16 \
	TBZ   $0, R6, low               \
	VUSHR $4, V27.B16, V20.B16      \
	ADD   $16, R10                  \
low:                                \
	NIBBLE_ODD(V20)                 \
	STORE_SCALES

// HALF_WORD_SCALES stores 2s+1 times the scale, for s in the bits 12 to 14 of words of 16 bits before R8.
#define HALF_WORD_SCALES \
	SUB   $32, R8, R13             \
	VLD1  (R13), [V20.H8, V21.H8]  \
	VUSHR $11, V20.H8, V20.H8      \
	VUSHR $11, V21.H8, V21.H8      \
	THREE_ODD(V20, V21)            \
	STORE_SCALES

// THREE_ODD makes 2s+1 of s in the bits 1 to 3 of words of 16 bits and widens them to V16-V19.
#define THREE_ODD(a, b) \
	VAND   V23.B16, a.B16, a.B16 \
	VAND   V23.B16, b.B16, b.B16 \
	VORR   V22.B16, a.B16, a.B16 \
	VORR   V22.B16, b.B16, b.B16 \
	VUXTL  a.H4, V16.S4          \
	VUXTL2 a.H8, V17.S4          \
	VUXTL  b.H4, V18.S4          \
	VUXTL2 b.H8, V19.S4

// THREE_BIT_FACTORS stores the factors of a group, from four numbers of three bits at R9 that two groups share.
#define THREE_BIT_FACTORS \
	VLD1  (R9), [V0.H8, V1.H8]   \
	VSHL  $1, V0.H8, V20.H8      \
	VSHL  $1, V1.H8, V21.H8      \
	VUSHR $2, V0.H8, V2.H8       \
	VUSHR $2, V1.H8, V3.H8       \
	TBZ   $0, R6, low            \
	VUSHR $5, V0.H8, V20.H8      \
	VUSHR $5, V1.H8, V21.H8      \
	VUSHR $8, V0.H8, V2.H8       \
	VUSHR $8, V1.H8, V3.H8       \
	ADD   $32, R9                \
low:                             \
	THREE_ODD(V20, V21)          \
	STORE_FACTORS                \
	THREE_ODD(V2, V3)            \
	STORE_FACTORS
