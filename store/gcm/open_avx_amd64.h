// The decryption of openGroups with VEX instructions. The including file defines OPEN, the function; S0
// to S7, LO, HI, MID, BLOCK, TEMP, KEY, REVERSE and COUNTER, registers of WIDTH bytes whose low halves
// are X0 to X15 in this order; KEYS, POWERS and FOLDED, offsets in a table; FILL, which fills COUNTER with
// the nonce; and NARROW, which leaves the sum of the lanes of HI in X9. Eight registers of blocks
// are decrypted at once, and GHASH is reduced once for two times eight.
//
// GHASH is computed as in openGroups, but with three products of 64 bits instead of four (Karatsuba):
// the middle one is that of the sums of both halves. AMD's processors start two rounds of AES in every
// cycle, but a product only in every second one, so products are spread evenly over the rounds.
// The sums of a group are reduced during the first rounds of the next.

// COUNT makes the i-th register of counter blocks and adds the first round key, which is in COUNTER.
#define COUNT(to, i) VPXOR (WIDTH*i)(R9), COUNTER, to

// ROUND does a round of AES, with work between and behind its halves.
#define ROUND(key, between, behind) \
	VMOVDQU (KEYS+WIDTH*key)(DX), KEY; \
	VAESENC KEY, S0, S0; \
	VAESENC KEY, S1, S1; \
	VAESENC KEY, S2, S2; \
	VAESENC KEY, S3, S3; \
	between; \
	VAESENC KEY, S4, S4; \
	VAESENC KEY, S5, S5; \
	VAESENC KEY, S6, S6; \
	VAESENC KEY, S7, S7; \
	behind

// LOAD makes BLOCK the i-th register of the ciphertext.
#define LOAD(i) \
	VMOVDQU (WIDTH*i)(SI), BLOCK; \
	VPSHUFB REVERSE, BLOCK, BLOCK

// These add the products of the i-th register with the powers of the hash key at p.
#define LOW(i, p) \
	LOAD(i);                                             \
	VPCLMULQDQ $0x00, (POWERS+WIDTH*p)(DX), BLOCK, TEMP; \
	VPXOR      TEMP, LO, LO

#define HIGH(p) \
	VPCLMULQDQ $0x11, (POWERS+WIDTH*p)(DX), BLOCK, TEMP; \
	VPXOR      TEMP, HI, HI

#define MIDDLE(p) \
	VPSHUFD    $0x4e, BLOCK, TEMP;                        \
	VPXOR      BLOCK, TEMP, TEMP;                         \
	VPCLMULQDQ $0x00, (FOLDED+WIDTH*p)(DX), TEMP, TEMP;   \
	VPXOR      TEMP, MID, MID

// FIRST_LOW, FIRST_HIGH and FIRST_MIDDLE begin the sums.
#define FIRST_LOW(i, p) \
	LOAD(i); \
	VPCLMULQDQ $0x00, (POWERS+WIDTH*p)(DX), BLOCK, LO

#define FIRST_HIGH(p) VPCLMULQDQ $0x11, (POWERS+WIDTH*p)(DX), BLOCK, HI

#define FIRST_MIDDLE(p) \
	VPSHUFD    $0x4e, BLOCK, TEMP;                      \
	VPXOR      BLOCK, TEMP, TEMP;                       \
	VPCLMULQDQ $0x00, (FOLDED+WIDTH*p)(DX), TEMP, MID

// STATE_LOW is LOW of the first register, to which the state of GHASH is added.
#define STATE_LOW(i, p) \
	LOAD(i);                                             \
	VPXOR      state-32(SP), BLOCK, BLOCK;               \
	VPCLMULQDQ $0x00, (POWERS+WIDTH*p)(DX), BLOCK, TEMP; \
	VPXOR      TEMP, LO, LO

// FOLD1, FOLD2 and NARROW reduce HI:MID:LO to a block in X9; the other lanes of HI become zero.
#define FOLD1 \
	VPXOR      LO, MID, MID;                \
	VPXOR      HI, MID, MID;                \
	VPCLMULQDQ $0x00, poly<>(SB), LO, TEMP; \
	VPSHUFD    $0x4e, LO, LO;               \
	VPXOR      LO, MID, MID;                \
	VPXOR      TEMP, MID, MID

#define FOLD2 \
	VPCLMULQDQ $0x00, poly<>(SB), MID, TEMP; \
	VPSHUFD    $0x4e, MID, MID;              \
	VPXOR      MID, HI, HI;                  \
	VPXOR      TEMP, HI, HI

#define SAVE \
	NARROW; \
	VMOVDQU HI, state-32(SP)

// ONCE begins the sums with the product of the block in X11 with the hash key.
#define ONCE \
	VMOVDQU    POWER1(DX), X13;            \
	VPCLMULQDQ $0x00, X13, X11, X8;        \
	VPCLMULQDQ $0x11, X13, X11, X9;        \
	VPSHUFD    $0x4e, X11, X12;            \
	VPXOR      X11, X12, X12;              \
	VMOVDQU    FOLDED1(DX), X13;           \
	VPCLMULQDQ $0x00, X13, X12, X10

// LAST does the last round and decrypts. KEY is the last round key.
#define LAST(state, i) \
	VPXOR       (WIDTH*i)(SI), KEY, TEMP; \
	VAESENCLAST TEMP, state, state;       \
	VMOVDQU     state, (WIDTH*i)(DI)

// BEGIN and END are the beginning and the end of eight registers of blocks.
#define BEGIN \
	COUNT(S0, 0); \
	COUNT(S1, 1); \
	COUNT(S2, 2); \
	COUNT(S3, 3); \
	COUNT(S4, 4); \
	COUNT(S5, 5); \
	COUNT(S6, 6); \
	COUNT(S7, 7)

#define END \
	VMOVDQU (KEYS+WIDTH*14)(DX), KEY; \
	LAST(S0, 0); \
	LAST(S1, 1); \
	LAST(S2, 2); \
	LAST(S3, 3); \
	LAST(S4, 4); \
	LAST(S5, 5); \
	LAST(S6, 6); \
	LAST(S7, 7); \
	ADDQ $(8*WIDTH), SI; \
	ADDQ $(8*WIDTH), DI; \
	ADDQ $(8*WIDTH), R9

#define NONE

// ENCRYPT does one round on the block in X7.
#define ENCRYPT(key) VAESENC (KEYS+WIDTH*key)(DX), X7, X7

// func OPEN(out, in *byte, groups int, t *table, counter, about, lengths, sum *[16]byte)
TEXT OPEN(SB), NOSPLIT, $48-64
	MOVQ out+0(FP), DI
	MOVQ in+8(FP), SI
	MOVQ groups+16(FP), CX
	MOVQ t+24(FP), DX
	MOVQ counter+32(FP), AX
	MOVQ about+40(FP), BX

	// Counter block 1 masks the tag.
	LEAQ  ·counters(SB), R9
	FILL
	VPXOR (KEYS)(DX), COUNTER, COUNTER
	VPXOR 16(R9), X15, X7
	ADDQ  $32, R9
	ENCRYPT(1)
	ENCRYPT(2)
	ENCRYPT(3)
	ENCRYPT(4)
	ENCRYPT(5)
	ENCRYPT(6)
	ENCRYPT(7)
	ENCRYPT(8)
	ENCRYPT(9)
	ENCRYPT(10)
	ENCRYPT(11)
	ENCRYPT(12)
	ENCRYPT(13)
	VAESENCLAST (KEYS+WIDTH*14)(DX), X7, X7
	VMOVDQU     X7, mask-48(SP)

	VMOVDQU reverse<>(SB), REVERSE
	VMOVDQU (BX), X11
	VPSHUFB X14, X11, X11
	ONCE

group:
	BEGIN
	ROUND(1, FOLD1, FOLD2)
	ROUND(2, SAVE, FIRST_LOW(1, 1))
	ROUND(3, FIRST_HIGH(1), FIRST_MIDDLE(1))
	ROUND(4, LOW(2, 2), HIGH(2))
	ROUND(5, MIDDLE(2), LOW(3, 3))
	ROUND(6, HIGH(3), MIDDLE(3))
	ROUND(7, LOW(4, 4), HIGH(4))
	ROUND(8, MIDDLE(4), LOW(5, 5))
	ROUND(9, HIGH(5), MIDDLE(5))
	ROUND(10, LOW(6, 6), HIGH(6))
	ROUND(11, MIDDLE(6), LOW(7, 7))
	ROUND(12, HIGH(7), MIDDLE(7))
	ROUND(13, STATE_LOW(0, 0), HIGH(0))
	MIDDLE(0)
	END

	BEGIN
	ROUND(1, LOW(0, 8), HIGH(8))
	ROUND(2, MIDDLE(8), LOW(1, 9))
	ROUND(3, HIGH(9), MIDDLE(9))
	ROUND(4, LOW(2, 10), HIGH(10))
	ROUND(5, NONE, MIDDLE(10))
	ROUND(6, LOW(3, 11), HIGH(11))
	ROUND(7, MIDDLE(11), LOW(4, 12))
	ROUND(8, HIGH(12), MIDDLE(12))
	ROUND(9, LOW(5, 13), NONE)
	ROUND(10, HIGH(13), MIDDLE(13))
	ROUND(11, LOW(6, 14), HIGH(14))
	ROUND(12, MIDDLE(14), LOW(7, 15))
	ROUND(13, HIGH(15), MIDDLE(15))
	END

	DECQ CX
	JNZ  group

	FOLD1
	FOLD2
	NARROW
	MOVQ    lengths+48(FP), BX
	VMOVDQU (BX), X11
	VPSHUFB X14, X11, X11
	VPXOR   X9, X11, X11
	ONCE
	FOLD1
	FOLD2

	VPSHUFB X14, X9, X9
	VPXOR   mask-48(SP), X9, X9
	MOVQ    sum+56(FP), BX
	VMOVDQU X9, (BX)
	VZEROUPPER
	RET
