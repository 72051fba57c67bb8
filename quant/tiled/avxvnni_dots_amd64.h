// Macros that multiply a token with codes with the 256-bit VPDPBUSD of AVX-VNNI, which
// accumulates in 32 bits. Registers are those in avx2_gemv_amd64.h.

#include "avxvnni_amd64.h"

// DOT adds the products of the codes in Y<codes> and the token in Y10 to Y<sum>; sum is
// below 8, codes is not.
#define DOT(codes, sum) VPDPBUSD_TOKEN10(codes, sum)

// DOTS adds the products of planes p and p+4 of a group to the sums; FIRST_DOTS
// clears the sums before.
#define DOTS(p) \
	VPBROADCASTD 4*(p)(R8), Y10    \
	DOT(11, 4)                     \
	DOT(12, 5)                     \
	VPBROADCASTD 4*(p)+16(R8), Y10 \
	DOT(8, 6)                      \
	DOT(9, 7)

#define FIRST_DOTS(p) \
	VPXOR Y4, Y4, Y4 \
	VPXOR Y5, Y5, Y5 \
	VPXOR Y6, Y6, Y6 \
	VPXOR Y7, Y7, Y7 \
	DOTS(p)

#define SUM \
	VPADDD Y6, Y4, Y4 \
	VPADDD Y7, Y5, Y5

#define SUM_NIBBLES SUM

// BYTES loads planes p and p+4 of 8-bit codes.
#define BYTES(src, at) \
	VMOVDQU at(src), Y11    \
	VMOVDQU at+32(src), Y12 \
	VMOVDQU at+256(src), Y8 \
	VMOVDQU at+288(src), Y9

#define GROUP8(src, offset) \
	BYTES(src, offset)     \
	FIRST_DOTS(0)          \
	BYTES(src, offset+64)  \
	DOTS(1)                \
	BYTES(src, offset+128) \
	DOTS(2)                \
	BYTES(src, offset+192) \
	DOTS(3)                \
	SUM

#define SIX_DOTS(p, sumA, sumB) \
	VPBROADCASTD 4*(p)(R8), Y10    \
	DOT(8, sumA)                   \
	VPBROADCASTD 4*(p)+16(R8), Y10 \
	DOT(9, sumB)

// SIX_ROWS computes the integer sums of both halves of a group for eight rows.
#define SIX_ROWS(src, at, sumA, numberA, sumB, numberB) \
	VPXOR sumA, sumA, sumA        \
	VPXOR sumB, sumB, sumB        \
	SIX(src, at, 0, LEFT4)        \
	SIX_DOTS(0, numberA, numberB) \
	SIX(src, at, 1, LEFT2)        \
	SIX_DOTS(1, numberA, numberB) \
	SIX(src, at, 2, THERE)        \
	SIX_DOTS(2, numberA, numberB) \
	SIX(src, at, 3, RIGHT2)       \
	SIX_DOTS(3, numberA, numberB)

#define SIX_SUMS(src) \
	SIX_ROWS(src, 0, Y4, 4, Y6, 6)  \
	SIX_ROWS(src, 32, Y5, 5, Y7, 7)
