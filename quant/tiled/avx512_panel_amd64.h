// Macros of the GEMM kernels with AVX-512. With i the integer sum of a group, the
// kernels compute
//
//	sums[token][row] += Σ i·scale·d + shift·min     over the groups
//
// for one tile of width tokens and 16 rows. They keep the codes of a group in Z16-Z23
// and iterate over the tokens. The float sums of up to 16 tokens stay in Z0-Z15 for
// all groups of the panel, because 512-bit stores are slow. VPDPBUSD has a latency of
// five cycles and a throughput of two per cycle, so the kernels compute four tokens
// at once.
//
// Integer sums start with startBits, the bits of 1.5·2²³, so that they can be read as
// floats. One multiply-subtract then replaces a conversion and a multiplication.
//
//	DI sums   SI codes   R12 scales   R13 mins     CX groups left   DX 4·width
//	                                  or factors
//	R8 x      R9 dx      R10 shift    R11 start
//	Z24 scale            Z25 startFloat·scale      Z26 min     Z31 startFloat
//	Z27-Z30 integer sums of the current tokens
//
// Each width has its own loop, because instructions name registers statically.

#define LOAD_ARGS \
	MOVQ a+0(FP), AX               \
	MOVQ kernelArgs_sums(AX), DI   \
	MOVQ kernelArgs_codes(AX), SI  \
	MOVQ kernelArgs_scales(AX), R12 \
	MOVQ kernelArgs_mins(AX), R13  \
	MOVQ kernelArgs_x(AX), R8      \
	MOVQ kernelArgs_dx(AX), R9     \
	MOVQ kernelArgs_shift(AX), R10 \
	MOVQ kernelArgs_start(AX), R11 \
	MOVQ kernelArgs_groups(AX), CX \
	MOVQ kernelArgs_width(AX), DX  \
	SHLQ $2, DX                    \
	VPBROADCASTD ·startValue(SB), Z31

#define LOAD_CODES \
	VMOVDQU32 (SI), Z16    \
	VMOVDQU32 64(SI), Z17  \
	VMOVDQU32 128(SI), Z18 \
	VMOVDQU32 192(SI), Z19 \
	VMOVDQU32 256(SI), Z20 \
	VMOVDQU32 320(SI), Z21 \
	VMOVDQU32 384(SI), Z22 \
	VMOVDQU32 448(SI), Z23

// DOTn adds the products of a plane of codes with four bytes of n tokens.
#define DOT1(at, codes, a) VPDPBUSD.BCST at(R8), codes, a

#define DOT2(at, codes, a, b) \
	DOT1(at, codes, a)    \
	DOT1(at+32, codes, b)

#define DOT4(at, codes, a, b, c, d) \
	DOT2(at, codes, a, b)       \
	DOT2(at+64, codes, c, d)

// PRODUCTSn adds the products of a group to the integer sums of n tokens from t on.
#define PRODUCTS4(t) \
	DOT4(32*(t), Z16, Z27, Z28, Z29, Z30)    \
	DOT4(32*(t)+4, Z17, Z27, Z28, Z29, Z30)  \
	DOT4(32*(t)+8, Z18, Z27, Z28, Z29, Z30)  \
	DOT4(32*(t)+12, Z19, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+16, Z20, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+20, Z21, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+24, Z22, Z27, Z28, Z29, Z30) \
	DOT4(32*(t)+28, Z23, Z27, Z28, Z29, Z30)

#define PRODUCTS2 \
	DOT2(0, Z16, Z27, Z28)  \
	DOT2(4, Z17, Z27, Z28)  \
	DOT2(8, Z18, Z27, Z28)  \
	DOT2(12, Z19, Z27, Z28) \
	DOT2(16, Z20, Z27, Z28) \
	DOT2(20, Z21, Z27, Z28) \
	DOT2(24, Z22, Z27, Z28) \
	DOT2(28, Z23, Z27, Z28)

#define PRODUCTS1 \
	DOT1(0, Z16, Z27)  \
	DOT1(4, Z17, Z27)  \
	DOT1(8, Z18, Z27)  \
	DOT1(12, Z19, Z27) \
	DOT1(16, Z20, Z27) \
	DOT1(20, Z21, Z27) \
	DOT1(24, Z22, Z27) \
	DOT1(28, Z23, Z27)

// START sets the integer sum of token t to the token's start, BEGIN to startBits.
#define START(t, a) VPBROADCASTD 4*(t)(R11), a
#define BEGIN(a) VMOVDQA32 Z31, a

// ADD computes sum += i·scale·d for token t; ADD_MIN adds shift·min.
#define ADD(t, a, sum) \
	VFMSUB213PS      Z25, Z24, a       \
	VFMADD231PS.BCST 4*(t)(R9), a, sum

#define ADD_MIN(t, sum) VFMADD231PS.BCST 4*(t)(R10), Z26, sum

// PLAINn adds a group to the sums of n tokens from t on; MINn does so in formats with
// a min.
#define PLAIN4(t, a, b, c, d) \
	START(t, Z27)   \
	START(t+1, Z28) \
	START(t+2, Z29) \
	START(t+3, Z30) \
	PRODUCTS4(t)    \
	ADD(t, Z27, a)   \
	ADD(t+1, Z28, b) \
	ADD(t+2, Z29, c) \
	ADD(t+3, Z30, d)

#define PLAIN2(t, a, b) \
	START(t, Z27)   \
	START(t+1, Z28) \
	PRODUCTS2       \
	ADD(t, Z27, a)   \
	ADD(t+1, Z28, b)

#define PLAIN1(t, a) \
	START(t, Z27)  \
	PRODUCTS1      \
	ADD(t, Z27, a)

#define MIN4(t, a, b, c, d) \
	BEGIN(Z27)   \
	BEGIN(Z28)   \
	BEGIN(Z29)   \
	BEGIN(Z30)   \
	PRODUCTS4(t) \
	ADD(t, Z27, a)   \
	ADD(t+1, Z28, b) \
	ADD(t+2, Z29, c) \
	ADD(t+3, Z30, d) \
	ADD_MIN(t, a)    \
	ADD_MIN(t+1, b)  \
	ADD_MIN(t+2, c)  \
	ADD_MIN(t+3, d)

#define MIN2(t, a, b) \
	BEGIN(Z27) \
	BEGIN(Z28) \
	PRODUCTS2  \
	ADD(t, Z27, a)   \
	ADD(t+1, Z28, b) \
	ADD_MIN(t, a)    \
	ADD_MIN(t+1, b)

#define MIN1(t, a) \
	BEGIN(Z27)     \
	PRODUCTS1      \
	ADD(t, Z27, a) \
	ADD_MIN(t, a)

// In formats with half groups, a token has two integer sums, and the kernels compute
// two tokens at once. The starts of second halves are 4·width bytes after those of
// first halves. Z24 and Z26 are the factors, Z25 and Z31 startFloat·factor.
// ADD_HALVES computes sum += (factor0·i0 + factor1·i1)·HALF_SCALE·d. The including
// file defines HALF_SCALE. The sum in parentheses is an integer below 2²⁴, which
// float32 represents exactly.
#define START_HALF(t, a) VPBROADCASTD 4*(t)(R11)(DX*1), a

#define ADD_HALVES(t, a, b, sum) \
	VFMSUB213PS      Z25, Z24, a       \
	VFMSUB213PS      Z31, Z26, b       \
	VADDPS           b, a, a           \
	VMULPS           HALF_SCALE, a, a  \
	VFMADD231PS.BCST 4*(t)(R9), a, sum

#define HALVES2(t, a, b) \
	START(t, Z27)        \
	START(t+1, Z28)      \
	START_HALF(t, Z29)   \
	START_HALF(t+1, Z30) \
	HALVES_DOTS2(t, a, b)

#define HALVES_DOTS2(t, a, b) \
	DOT2(32*(t), Z16, Z27, Z28)    \
	DOT2(32*(t)+16, Z20, Z29, Z30) \
	DOT2(32*(t)+4, Z17, Z27, Z28)  \
	DOT2(32*(t)+20, Z21, Z29, Z30) \
	DOT2(32*(t)+8, Z18, Z27, Z28)  \
	DOT2(32*(t)+24, Z22, Z29, Z30) \
	DOT2(32*(t)+12, Z19, Z27, Z28) \
	DOT2(32*(t)+28, Z23, Z29, Z30) \
	ADD_HALVES(t, Z27, Z29, a)     \
	ADD_HALVES(t+1, Z28, Z30, b)

#define HALVES4(t, a, b, c, d) \
	HALVES2(t, a, b)   \
	HALVES2(t+2, c, d)

#define HALVES1(t, a) \
	START(t, Z27)      \
	START_HALF(t, Z29) \
	HALVES_DOTS1(t, a)

#define HALVES_DOTS1(t, a) \
	DOT1(0, Z16, Z27)  \
	DOT1(16, Z20, Z29) \
	DOT1(4, Z17, Z27)  \
	DOT1(20, Z21, Z29) \
	DOT1(8, Z18, Z27)  \
	DOT1(24, Z22, Z29) \
	DOT1(12, Z19, Z27) \
	DOT1(28, Z23, Z29) \
	ADD_HALVES(t, Z27, Z29, a)

// START_SIGNED computes the start of codes with the zero point 128 from that of Q6_K's, 32:
// 4·(start - startBits) + startBits.
#define START_SIGNED(mem, a) \
	VPBROADCASTD mem, a                  \
	VPSLLD       $2, a, a                \
	VPSUBD.BCST  ·thriceStart(SB), a, a

#define SIGNED2(t, a, b) \
	START_SIGNED(4*(t)(R11), Z27)           \
	START_SIGNED(4*(t)+4(R11), Z28)         \
	START_SIGNED(4*(t)(R11)(DX*1), Z29)     \
	START_SIGNED(4*(t)+4(R11)(DX*1), Z30)   \
	HALVES_DOTS2(t, a, b)

#define SIGNED4(t, a, b, c, d) \
	SIGNED2(t, a, b)   \
	SIGNED2(t+2, c, d)

#define SIGNED1(t, a) \
	START_SIGNED(4*(t)(R11), Z27)       \
	START_SIGNED(4*(t)(R11)(DX*1), Z29) \
	HALVES_DOTS1(t, a)

// The _SCALES macros load the scales, mins or factors of a group; the _NEXT macros
// advance to the next group.
#define SCALE(mem, scale, product) \
	VMOVUPS     mem, scale                  \
	VMULPS.BCST ·startValue(SB), scale, product

#define PLAIN_SCALES SCALE((R12), Z24, Z25)

#define MIN_SCALES \
	SCALE((R12), Z24, Z25) \
	VMOVUPS (R13), Z26

#define HALF_SCALES \
	SCALE((R13), Z24, Z25)   \
	SCALE(64(R13), Z26, Z31)

#define PLAIN_NEXT \
	ADDQ $64, R12 \
	ADDQ DX, R11

#define MIN_NEXT \
	ADDQ $64, R12 \
	ADDQ $64, R13 \
	ADDQ DX, R10

#define HALF_NEXT \
	ADDQ $64, R12          \
	ADDQ $128, R13         \
	LEAQ (R11)(DX*2), R11

// LOADn and STOREn load and store the float sums of n tokens from t on.
#define LOAD4(t, a, b, c, d) \
	VMOVUPS 64*t(DI), a     \
	VMOVUPS 64*t+64(DI), b  \
	VMOVUPS 64*t+128(DI), c \
	VMOVUPS 64*t+192(DI), d

#define LOAD2(t, a, b) \
	VMOVUPS 64*t(DI), a    \
	VMOVUPS 64*t+64(DI), b

#define LOAD1(t, a) VMOVUPS 64*t(DI), a

#define STORE4(t, a, b, c, d) \
	VMOVUPS a, 64*t(DI)     \
	VMOVUPS b, 64*t+64(DI)  \
	VMOVUPS c, 64*t+128(DI) \
	VMOVUPS d, 64*t+192(DI)

#define STORE2(t, a, b) \
	VMOVUPS a, 64*t(DI)    \
	VMOVUPS b, 64*t+64(DI)

#define STORE1(t, a) VMOVUPS a, 64*t(DI)

// WIDTHn applies DO to all n tokens of a tile, in runs of up to four.
#define WIDTH1(DO) DO(0, Z0)
#define WIDTH2(DO) DO(0, Z0, Z1)
#define WIDTH4(DO) DO(0, Z0, Z1, Z2, Z3)
#define WIDTH8(DO) WIDTH4(DO) DO(4, Z4, Z5, Z6, Z7)
#define WIDTH16(DO) WIDTH8(DO) DO(8, Z8, Z9, Z10, Z11) DO(12, Z12, Z13, Z14, Z15)

// PANEL is a kernel's loop over the groups for one width.
#define PANEL(loop, WIDTH, LOAD, SCALES, PRODUCTS, NEXT, STORE) \
	WIDTH(LOAD)            \
loop:                          \
	LOAD_CODES             \
	SCALES                 \
	WIDTH(PRODUCTS)        \
	ADDQ $512, SI          \
	LEAQ (R8)(DX*8), R8    \
	ADDQ DX, R9            \
	NEXT                   \
	DECQ CX                \
	JNZ  loop              \
	WIDTH(STORE)           \
	VZEROUPPER             \
	RET

// CHOOSE_WIDTH jumps to the label of the tile's width; width 1 falls through.
#define CHOOSE_WIDTH \
	CMPQ DX, $32 \
	JEQ  width8  \
	JGT  width16 \
	CMPQ DX, $8  \
	JEQ  width2  \
	JGT  width4
