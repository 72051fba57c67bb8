// Macros that multiply a token with codes with VPMADDUBSW, which adds pairs of byte
// products in 16 bits. The width of the codes determines how many pairs a 16-bit lane
// can accumulate. Registers are those in avx2_gemv_amd64.h.

// FIRST_DOTS writes the 16-bit sums of pairs of products of planes p and p+4 of a
// group, and DOTS adds to them.
#define FIRST_DOTS(p) \
	VPBROADCASTD 4*(p)(R8), Y10    \
	VPMADDUBSW   Y10, Y11, Y4      \
	VPMADDUBSW   Y10, Y12, Y5      \
	VPBROADCASTD 4*(p)+16(R8), Y10 \
	VPMADDUBSW   Y10, Y8, Y6       \
	VPMADDUBSW   Y10, Y9, Y7

#define DOTS(p) \
	VPBROADCASTD 4*(p)(R8), Y10    \
	VPMADDUBSW   Y10, Y11, Y11     \
	VPMADDUBSW   Y10, Y12, Y12     \
	VPBROADCASTD 4*(p)+16(R8), Y10 \
	VPMADDUBSW   Y10, Y8, Y8       \
	VPMADDUBSW   Y10, Y9, Y9       \
	VPADDW       Y11, Y4, Y4       \
	VPADDW       Y12, Y5, Y5       \
	VPADDW       Y8, Y6, Y6        \
	VPADDW       Y9, Y7, Y7

// SUM_NIBBLES computes the 32-bit sums of 4-bit codes: 8·2·15·127 < 2^15. SUM does so
// for codes of up to 5 bits: 4·2·31·127 < 2^15.
#define SUM_NIBBLES \
	VPADDW   Y6, Y4, Y4             \
	VPADDW   Y7, Y5, Y5             \
	VPMADDWD ·wordOnes(SB), Y4, Y4  \
	VPMADDWD ·wordOnes(SB), Y5, Y5

#define SUM \
	VPMADDWD ·wordOnes(SB), Y4, Y4  \
	VPMADDWD ·wordOnes(SB), Y5, Y5  \
	VPMADDWD ·wordOnes(SB), Y6, Y6  \
	VPMADDWD ·wordOnes(SB), Y7, Y7  \
	VPADDD   Y6, Y4, Y4             \
	VPADDD   Y7, Y5, Y5

// SIGNED_DOTS adds the products of planes p and p+4 of a table's signed codes, which
// are above -128, to Y4 and Y5. VPMADDUBSW needs an unsigned operand, so it multiplies
// the magnitude of the token with codes that have taken on the token's signs:
// |x|·(sign(x)·code).
#define SIGNED_DOTS(p) \
	VPBROADCASTD 4*(p)(R8), Y10        \
	VPABSB       Y10, Y6               \
	SIGNED_DOT(Y11, Y4)                \
	SIGNED_DOT(Y12, Y5)                \
	VPBROADCASTD 4*(p)+16(R8), Y10     \
	VPABSB       Y10, Y6               \
	SIGNED_DOT(Y8, Y4)                 \
	SIGNED_DOT(Y9, Y5)

#define SIGNED_DOT(codes, sum) \
	VPSIGNB    Y10, codes, codes  \
	VPMADDUBSW codes, Y6, codes   \
	VPMADDWD   Y14, codes, codes  \
	VPADDD     codes, sum, sum

#define GROUP_TABLE_SIGNED(src, offset) \
	VPXOR Y4, Y4, Y4        \
	VPXOR Y5, Y5, Y5        \
	LOOKUP(src, offset)     \
	SIGNED_DOTS(0)          \
	LOOKUP(src, offset+64)  \
	SIGNED_DOTS(1)          \
	LOOKUP(src, offset+128) \
	SIGNED_DOTS(2)          \
	LOOKUP(src, offset+192) \
	SIGNED_DOTS(3)

// BYTES adds the products of plane p of 8-bit codes to Y4 and Y5. Codes can be -128,
// whose sign VPSIGNB cannot change, so the token takes on the signs of the codes here.
#define BYTES(src, offset, p) \
	VPBROADCASTD 4*(p)(R8), Y10                    \
	VPXOR        64*(p)+offset(src), Y13, Y8       \
	VPXOR        64*(p)+32+offset(src), Y13, Y9    \
	VPSIGNB      Y8, Y10, Y11                      \
	VPSIGNB      Y9, Y10, Y12                      \
	VPABSB       Y8, Y8                            \
	VPABSB       Y9, Y9                            \
	VPMADDUBSW   Y11, Y8, Y8                       \
	VPMADDUBSW   Y12, Y9, Y9                       \
	VPMADDWD     Y14, Y8, Y8                       \
	VPMADDWD     Y14, Y9, Y9                       \
	VPADDD       Y8, Y4, Y4                        \
	VPADDD       Y9, Y5, Y5

#define GROUP8_SIGNED(src, offset) \
	VPXOR Y4, Y4, Y4      \
	VPXOR Y5, Y5, Y5      \
	BYTES(src, offset, 0) \
	BYTES(src, offset, 1) \
	BYTES(src, offset, 2) \
	BYTES(src, offset, 3) \
	BYTES(src, offset, 4) \
	BYTES(src, offset, 5) \
	BYTES(src, offset, 6) \
	BYTES(src, offset, 7)

#define SIX_DOTS(p) \
	VPBROADCASTD 4*(p)(R8), Y10    \
	VPMADDUBSW   Y10, Y8, Y8       \
	VPBROADCASTD 4*(p)+16(R8), Y10 \
	VPMADDUBSW   Y10, Y9, Y9

// SIX_PAIR computes the 32-bit sums of planes p, p+1, p+4 and p+5 in Y12 and Y13:
// 2·2·63·127 < 2^15.
#define SIX_PAIR(src, at, p, SHIFT, SHIFT_NEXT) \
	SIX(src, at, p, SHIFT)             \
	SIX_DOTS(p)                        \
	VMOVDQA  Y8, Y12                   \
	VMOVDQA  Y9, Y13                   \
	SIX(src, at, p+1, SHIFT_NEXT)      \
	SIX_DOTS(p+1)                      \
	VPADDW   Y8, Y12, Y12              \
	VPADDW   Y9, Y13, Y13              \
	VPMADDWD ·wordOnes(SB), Y12, Y12   \
	VPMADDWD ·wordOnes(SB), Y13, Y13

// SIX_ROWS computes the integer sums of both halves of a group for eight rows.
#define SIX_ROWS(src, at, sumA, sumB) \
	SIX_PAIR(src, at, 0, LEFT4, LEFT2)  \
	VMOVDQA Y12, sumA                   \
	VMOVDQA Y13, sumB                   \
	SIX_PAIR(src, at, 2, THERE, RIGHT2) \
	VPADDD Y12, sumA, sumA              \
	VPADDD Y13, sumB, sumB

#define SIX_SUMS(src) \
	SIX_ROWS(src, 0, Y4, Y6)  \
	SIX_ROWS(src, 32, Y5, Y7)
