// Macros that unpack codes with NEON. V12-V15 hold 64 bytes of nibbles, four rows per
// register. Low nibbles are plane p of a group, high nibbles plane p+4. V18 is 15 in
// every byte.

#define LOAD_NIBBLES VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16]

// SPLIT moves the low nibbles of both to low and leaves the high nibbles in both.
#define SPLIT(both, low) \
	VAND  V18.B16, both.B16, low.B16 \
	VUSHR $4, both.B16, both.B16

// FIVE_CONSTANTS loads fifthTables for FIFTH: V24-V27 VTBL indices for each quarter of
// the rows, V28 the shifts that move bit j of a byte to bit 4. V29 is the mask of bit 4.
#define FIVE_CONSTANTS \
	MOVD  $·fifthTables(SB), R13                      \
	VLD1  (R13), [V24.B16, V25.B16, V26.B16, V27.B16] \
	ADD   $64, R13                                    \
	VLD1  (R13), [V28.B16]                            \
	VMOVI $16, V29.B16

// FIFTH sets the fifth bits of codes, four rows. Both halves of word hold the 64 fifth
// bits of the plane.
#define FIFTH(word, rows, codes) \
	VTBL rows.B16, [word.B16], V30.B16 \
	USHL16(28, 30, 30)                 \
	VBIT V29.B16, V30.B16, codes.B16

// HIGH2 sets bits 4 and 5 of codes from V30. V29 is 0x30 in every byte.
#define HIGH2(codes) VBIT V29.B16, V30.B16, codes.B16

// LOW and HIGH add the products of a plane of 16 rows, a to d, with four elements of a
// token to the integer sums V4-V7: LOW elements 4p to 4p+3, in V16, and HIGH elements
// 16+4p to 16+4p+3, in V17.
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

// SIGNED4 loads a plane of 8-bit codes and subtracts 128. V31 is 128 in every byte.
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

// DOT_BYTES adds the products of a group of 8-bit codes to the integer sums V4-V7.
#define DOT_BYTES \
	BYTES_LOW(0)  \
	BYTES_LOW(1)  \
	BYTES_LOW(2)  \
	BYTES_LOW(3)  \
	BYTES_HIGH(0) \
	BYTES_HIGH(1) \
	BYTES_HIGH(2) \
	BYTES_HIGH(3)
