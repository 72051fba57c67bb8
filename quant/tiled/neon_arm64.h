// Encodings of NEON instructions that the Go assembler lacks. Arguments are register
// numbers. The order is that of the Go assembler: m is the second source operand in
// Arm's manuals, n the first, and the destination d comes last.

// SDOT adds the dot product of the four signed bytes in each 32-bit lane of n with
// those in lane i of m to the same lane of d. (FEAT_DotProd)
#define SDOT(m, i, n, d) WORD $(0x4F80E000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))

// USDOT is SDOT with unsigned bytes in n. (FEAT_I8MM)
#define USDOT(m, i, n, d) WORD $(0x4F80F000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))

// SMMLA adds the product of two 2×8 byte matrices to d: lane 2r+c of d += row r of n
// times row c of m. (FEAT_I8MM)
#define SMMLA(m, n, d) WORD $(0x4E80A400 | (m)<<16 | (n)<<5 | (d))

// USMMLA is SMMLA with unsigned bytes in n.
#define USMMLA(m, n, d) WORD $(0x4E80AC00 | (m)<<16 | (n)<<5 | (d))

// SMULL8 and SMULL28 multiply the lower or upper eight signed bytes to 16 bits; SMLAL8
// and SMLAL28 add the products to d. SADALP8 adds pairs of adjacent 16-bit lanes of n
// to the 32-bit lanes of d.
#define SMULL8(m, n, d) WORD $(0x0E20C000 | (m)<<16 | (n)<<5 | (d))
#define SMULL28(m, n, d) WORD $(0x4E20C000 | (m)<<16 | (n)<<5 | (d))
#define SMLAL8(m, n, d) WORD $(0x0E208000 | (m)<<16 | (n)<<5 | (d))
#define SMLAL28(m, n, d) WORD $(0x4E208000 | (m)<<16 | (n)<<5 | (d))
#define SADALP8(n, d) WORD $(0x4E606800 | (n)<<5 | (d))

// Four float32 lanes: FMUL4 multiplies, FMLA4 adds n times lane i of m to d with one
// rounding, SCVTF4 converts from int32, and FCVTNS4 rounds to int32, ties to even.
#define FMUL4(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define FMLA4(m, i, n, d) WORD $(0x4F801000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))
#define SCVTF4(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))
#define FCVTNS4(n, d) WORD $(0x4E21A800 | (n)<<5 | (d))

#define FADD4(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d))

// FCVTL4 widens the lower four binary16 numbers of n, FCVTL24 the upper four.
#define FCVTL4(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL24(n, d) WORD $(0x4E217800 | (n)<<5 | (d))

// SXTL8 and SXTL28 sign-extend the lower or upper eight bytes to 16 bits; SXTL16 and
// SXTL216 sign-extend the lower or upper four 16-bit lanes to 32 bits.
#define SXTL8(n, d) WORD $(0x0F08A400 | (n)<<5 | (d))
#define SXTL28(n, d) WORD $(0x4F08A400 | (n)<<5 | (d))
#define SXTL16(n, d) WORD $(0x0F10A400 | (n)<<5 | (d))
#define SXTL216(n, d) WORD $(0x4F10A400 | (n)<<5 | (d))

// USHL16 shifts the bytes of n left by the signed bytes of m, or right if negative.
#define USHL16(m, n, d) WORD $(0x6E204400 | (m)<<16 | (n)<<5 | (d))

// UMAXV4 computes the maximum of the four unsigned 32-bit lanes of n, SADDLV16 the sum
// of the sixteen signed bytes of n.
#define UMAXV4(n, d) WORD $(0x6EB0A800 | (n)<<5 | (d))
#define SADDLV16(n, d) WORD $(0x4E303800 | (n)<<5 | (d))

// Four int32 lanes: MUL4 multiplies, MLA4 adds the products to d.
#define MUL4(m, n, d) WORD $(0x4EA09C00 | (m)<<16 | (n)<<5 | (d))
#define MLA4(m, n, d) WORD $(0x4EA09400 | (m)<<16 | (n)<<5 | (d))

// FMLA44 adds the products of the lanes of n and m to d.
#define FMLA44(m, n, d) WORD $(0x4E20CC00 | (m)<<16 | (n)<<5 | (d))

// ADD_SCALED converts the integer sums in a and adds them, times factor, to sum.
#define ADD_SCALED(factor, a, sum) \
	SCVTF4(a, a) \
	FMLA44(factor, a, sum)

// FLOATS converts integers to float32. In-order processors wait less if conversions and
// the operations that use them do not alternate.
#define FLOATS(a, b, c, d) \
	SCVTF4(a, a) \
	SCVTF4(b, b) \
	SCVTF4(c, c) \
	SCVTF4(d, d)

// SCALED converts the integer sums in a and multiplies them by scale.
#define SCALED(scale, a) \
	SCVTF4(a, a) \
	FMUL4(scale, a, a)

// LANES4 zero-extends 16 bytes to four registers of 32-bit lanes.
#define LANES4(from, t, a, b, c, d) \
	VUXTL  from.B8, t.H8  \
	VUXTL  t.H4, a.S4     \
	VUXTL2 t.H8, b.S4     \
	VUXTL2 from.B16, t.H8 \
	VUXTL  t.H4, c.S4     \
	VUXTL2 t.H8, d.S4

#define ZERO4(a, b, c, d) \
	VEOR a.B16, a.B16, a.B16 \
	VEOR b.B16, b.B16, b.B16 \
	VEOR c.B16, c.B16, c.B16 \
	VEOR d.B16, d.B16, d.B16
