// Vector floating-point instructions that the assembler does not know, all on
// four float32 lanes: d = n op m, with register numbers as arguments.

#define FADD4(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d))
#define FSUB4(m, n, d) WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d))
#define FMUL4(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define FDIV4(m, n, d) WORD $(0x6E20FC00 | (m)<<16 | (n)<<5 | (d))

// FMAX4 and FMIN4 keep NaNs.
#define FMAX4(m, n, d) WORD $(0x4E20F400 | (m)<<16 | (n)<<5 | (d))
#define FMIN4(m, n, d) WORD $(0x4EA0F400 | (m)<<16 | (n)<<5 | (d))

// FMAXNM4 takes the other number when one is a NaN. FMAXNMV does so across the
// lanes of n.
#define FMAXNM4(m, n, d) WORD $(0x4E20C400 | (m)<<16 | (n)<<5 | (d))
#define FMAXNMV4(n, d) WORD $(0x6E30C800 | (n)<<5 | (d))

#define FABS4(n, d) WORD $(0x4EA0F800 | (n)<<5 | (d))
#define FNEG4(n, d) WORD $(0x6EA0F800 | (n)<<5 | (d))

// FCMGT4 sets the lanes of d where n > m, FCMEQ4 where n == m.
#define FCMGT4(m, n, d) WORD $(0x6EA0E400 | (m)<<16 | (n)<<5 | (d))
#define FCMEQ4(m, n, d) WORD $(0x4E20E400 | (m)<<16 | (n)<<5 | (d))

// FCVTL4 widens the lower four binary16 numbers of n, FCVTL24 the upper four.
#define FCVTL4(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL24(n, d) WORD $(0x4E217800 | (n)<<5 | (d))

// Sign extension of the lower and upper bytes to 16 bits, of those to 32 bits,
// and conversion to float32.
#define SXTL8(n, d) WORD $(0x0F08A400 | (n)<<5 | (d))
#define SXTL28(n, d) WORD $(0x4F08A400 | (n)<<5 | (d))
#define SXTL16(n, d) WORD $(0x0F10A400 | (n)<<5 | (d))
#define SXTL216(n, d) WORD $(0x4F10A400 | (n)<<5 | (d))
#define SCVTF4(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))

// UMAX4 and UMAXV4 are maxima of unsigned lanes, FCVTNS4 rounds to integers,
// halves to even.
#define UMAX4(m, n, d) WORD $(0x6EA06400 | (m)<<16 | (n)<<5 | (d))
#define UMAXV4(n, d) WORD $(0x6EB0A800 | (n)<<5 | (d))
#define FCVTNS4(n, d) WORD $(0x4E21A800 | (n)<<5 | (d))

// Narrowing with saturation from 32 and 16 bits, the ones with a 2 into the upper
// half of d.
#define SQXTN4(n, d) WORD $(0x0E614800 | (n)<<5 | (d))
#define SQXTN24(n, d) WORD $(0x4E614800 | (n)<<5 | (d))
#define SQXTN8(n, d) WORD $(0x0E214800 | (n)<<5 | (d))
#define SQXTN28(n, d) WORD $(0x4E214800 | (n)<<5 | (d))

#define ZERO4(a, b, c, d) \
	VEOR a.B16, a.B16, a.B16 \
	VEOR b.B16, b.B16, b.B16 \
	VEOR c.B16, c.B16, c.B16 \
	VEOR d.B16, d.B16, d.B16
