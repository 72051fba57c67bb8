// Instructions that the assembler does not know. Arguments are register
// numbers in the assembler's order: the destination d comes last, m is the
// second operand of the manuals and n the first.

// Dot products of bytes: each 32-bit lane of d gets four products added. SDOT
// takes the four bytes of m from its lane i, for all lanes of n. (DotProd)
#define SDOT(m, i, n, d) WORD $(0x4F80E000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))

// SMMLA multiplies matrices of 2 rows of 8 bytes: lane 2r+c of d gets the dot
// product of row r of n and row c of m added. (I8MM)
#define SMMLA(m, n, d) WORD $(0x4E80A400 | (m)<<16 | (n)<<5 | (d))

// Products of the lower or upper eight bytes in 16 bits, and those added to d;
// SADALP8 adds neighbours of n to the 32-bit lanes of d.
#define SMULL8(m, n, d) WORD $(0x0E20C000 | (m)<<16 | (n)<<5 | (d))
#define SMULL28(m, n, d) WORD $(0x4E20C000 | (m)<<16 | (n)<<5 | (d))
#define SMLAL8(m, n, d) WORD $(0x0E208000 | (m)<<16 | (n)<<5 | (d))
#define SMLAL28(m, n, d) WORD $(0x4E208000 | (m)<<16 | (n)<<5 | (d))
#define SADALP8(n, d) WORD $(0x4E606800 | (n)<<5 | (d))

// Four float32 lanes: product, fused product of n and lane i of m added to d,
// conversion from integers and, halves to even, to integers.
#define FMUL4(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define FMLA4(m, i, n, d) WORD $(0x4F801000 | ((i)&1)<<21 | ((i)>>1)<<11 | (m)<<16 | (n)<<5 | (d))
#define SCVTF4(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))
#define FCVTNS4(n, d) WORD $(0x4E21A800 | (n)<<5 | (d))

#define FADD4(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d))

// FCVTL4 widens the lower four binary16 numbers of n, FCVTL24 the upper four.
#define FCVTL4(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL24(n, d) WORD $(0x4E217800 | (n)<<5 | (d))

// Sign extension of the lower and upper bytes to 16 bits, of those to 32 bits.
#define SXTL8(n, d) WORD $(0x0F08A400 | (n)<<5 | (d))
#define SXTL28(n, d) WORD $(0x4F08A400 | (n)<<5 | (d))
#define SXTL16(n, d) WORD $(0x0F10A400 | (n)<<5 | (d))
#define SXTL216(n, d) WORD $(0x4F10A400 | (n)<<5 | (d))

// USHL16 shifts the bytes of n left by the signed bytes of m.
#define USHL16(m, n, d) WORD $(0x6E204400 | (m)<<16 | (n)<<5 | (d))

// The largest of the four unsigned lanes of n, and the sum of its signed bytes.
#define UMAXV4(n, d) WORD $(0x6EB0A800 | (n)<<5 | (d))
#define SADDLV16(n, d) WORD $(0x4E303800 | (n)<<5 | (d))

// FMLA44 adds the products of the lanes of n and m to d.
#define FMLA44(m, n, d) WORD $(0x4E20CC00 | (m)<<16 | (n)<<5 | (d))

// ADD_SCALED adds four sums of integers, times the factors, to floats.
#define ADD_SCALED(factor, a, sum) \
	SCVTF4(a, a) \
	FMLA44(factor, a, sum)

// SCALED makes four sums of integers floats, times the scales.
#define SCALED(scale, a) \
	SCVTF4(a, a) \
	FMUL4(scale, a, a)

#define ZERO4(a, b, c, d) \
	VEOR a.B16, a.B16, a.B16 \
	VEOR b.B16, b.B16, b.B16 \
	VEOR c.B16, c.B16, c.B16 \
	VEOR d.B16, d.B16, d.B16
