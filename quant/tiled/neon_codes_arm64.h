// Macros that unpack codes. V18 holds 15 in every byte, V12-V15 one vector of
// nibbles: four rows in each register. Low nibbles are one step of a group,
// high nibbles the step sixteen elements further.

#define LOAD_NIBBLES VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16]

// SPLIT leaves the low nibbles of a register in low and the high in itself.
#define SPLIT(both, low) \
	VAND  V18.B16, both.B16, low.B16 \
	VUSHR $4, both.B16, both.B16

// FIVE_CONSTANTS loads what FIFTH wants: V24-V27 the bytes of a word with a bit
// for each of 16 codes, four rows and the next four and so on; V28 how far bit
// j of a byte is from bit 4; V29 that bit.
#define FIVE_CONSTANTS \
	MOVD  $·fifthTables(SB), R13                      \
	VLD1  (R13), [V24.B16, V25.B16, V26.B16, V27.B16] \
	ADD   $64, R13                                    \
	VLD1  (R13), [V28.B16]                            \
	VMOVI $16, V29.B16

// FIFTH adds the fifth bits of four rows, which word holds twice, to codes.
#define FIFTH(word, rows, codes) \
	VTBL rows.B16, [word.B16], V30.B16 \
	USHL16(28, 30, 30)                 \
	VBIT V29.B16, V30.B16, codes.B16

// HIGH2 adds two high bits, which V30 holds in place, to codes; V29 is 0x30.
#define HIGH2(codes) VBIT V29.B16, V30.B16, codes.B16

// LOW and HIGH add the products of 16 rows with step p of a token's first half of a
// group, V16, or second, V17, to V4-V7.
#define LOW(p, a, b, c, d) \
	SDOT(16, p, a, 4) \
	SDOT(16, p, b, 5) \
	SDOT(16, p, c, 6) \
	SDOT(16, p, d, 7)

#define HIGH(p, a, b, c, d) \
	SDOT(17, p, a, 4) \
	SDOT(17, p, b, 5) \
	SDOT(17, p, c, 6) \
	SDOT(17, p, d, 7)

// SIGNED4 loads the codes of a step, less 128, which every byte of V31 is.
#define SIGNED4 \
	VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16] \
	VEOR   V31.B16, V12.B16, V12.B16                    \
	VEOR   V31.B16, V13.B16, V13.B16                    \
	VEOR   V31.B16, V14.B16, V14.B16                    \
	VEOR   V31.B16, V15.B16, V15.B16

#define BYTES_LOW(p) \
	SIGNED4 \
	LOW(p, 12, 13, 14, 15)

#define BYTES_HIGH(p) \
	SIGNED4 \
	HIGH(p, 12, 13, 14, 15)

// DOT_BYTES is a whole group of 8-bit codes.
#define DOT_BYTES \
	BYTES_LOW(0)  \
	BYTES_LOW(1)  \
	BYTES_LOW(2)  \
	BYTES_LOW(3)  \
	BYTES_HIGH(0) \
	BYTES_HIGH(1) \
	BYTES_HIGH(2) \
	BYTES_HIGH(3)
