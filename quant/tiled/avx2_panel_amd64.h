// Macros of the panel kernels with 256-bit vectors; kernelArgs has the formula. A
// kernel multiplies 8 rows, whose codes of a group are in Y0-Y7, with all tokens of a
// tile, then the other 8 rows. Float sums stay in memory.
//
//	AX args   BX offset of the half in a plane and of its rows' numbers
//	SI codes  R12 scales   R13 mins    CX groups   R15 what is left of the tokens
//	R8 x      R9 dx        R10 shift   R11 start   DI sums   DX 4·width
//	Y8 scale  Y9 startFloat times it   Y10 sum     Y11, Y12 scratch
//	Y13 min
//
// With two factors in a group R13 points to them, Y8 is the first, Y9 zero and Y15
// startFloat. Sums times factors are whole numbers below 2²⁴, which float32
// represents exactly. Adding zero turns a product of -0 into +0.

#define LOAD_ARGS \
	MOVQ a+0(FP), AX                \
	MOVQ kernelArgs_codes(AX), SI   \
	MOVQ kernelArgs_scales(AX), R12 \
	MOVQ kernelArgs_mins(AX), R13   \
	MOVQ kernelArgs_x(AX), R8       \
	MOVQ kernelArgs_dx(AX), R9      \
	MOVQ kernelArgs_shift(AX), R10  \
	MOVQ kernelArgs_start(AX), R11  \
	MOVQ kernelArgs_groups(AX), CX  \
	MOVQ kernelArgs_width(AX), DX   \
	SHLQ $2, DX                     \
	XORL BX, BX

// FIRST_TOKEN begins a half with its codes.
#define FIRST_TOKEN \
	VMOVDQU (SI)(BX*1), Y0          \
	VMOVDQU 64(SI)(BX*1), Y1        \
	VMOVDQU 128(SI)(BX*1), Y2       \
	VMOVDQU 192(SI)(BX*1), Y3       \
	VMOVDQU 256(SI)(BX*1), Y4       \
	VMOVDQU 320(SI)(BX*1), Y5       \
	VMOVDQU 384(SI)(BX*1), Y6       \
	VMOVDQU 448(SI)(BX*1), Y7       \
	MOVQ    kernelArgs_sums(AX), DI \
	ADDQ    BX, DI                  \
	MOVQ    DX, R15

// NEXT_TOKEN stores the sum and goes on. It sets the zero flag after the last.
#define NEXT_TOKEN \
	VMOVUPS Y10, (DI) \
	ADDQ $32, R8      \
	ADDQ $4, R9       \
	ADDQ $4, R10      \
	ADDQ $4, R11      \
	ADDQ $64, DI      \
	SUBQ $4, R15

// NEXT_HALF goes back to the first token for the second half, or after it to
// the label next.
#define NEXT_HALF(half) \
	XORQ $32, BX   \
	JZ   next      \
	MOVQ DX, R15   \
	SHLQ $3, R15   \
	SUBQ R15, R8   \
	SUBQ DX, R9    \
	SUBQ DX, R10   \
	SUBQ DX, R11   \
	JMP  half

#define NEXT_GROUP \
	ADDQ $512, SI \
	ADDQ $64, R12 \
	ADDQ $64, R13

#define SCALE(mem, scale, product) \
	VMOVUPS      mem, scale               \
	VBROADCASTSS ·startValue(SB), product \
	VMULPS       product, scale, product

// FLOAT makes the integer sum a float times the scale. ADD multiplies it with
// the token's scale and adds what the sum was, ADD_MIN adds the shift times the
// min.
#define FLOAT(scale, product) VFMSUB213PS product, scale, Y10

#define ADD \
	VBROADCASTSS (R9), Y12       \
	VFMADD213PS  (DI), Y12, Y10

#define FACTORS \
	VMOVUPS      (R13)(BX*1), Y8      \
	VXORPS       Y9, Y9, Y9           \
	VBROADCASTSS ·startValue(SB), Y15

// ADD_HALVES adds the integer sums in Y10 and Y11.
#define ADD_HALVES \
	VSUBPS      Y15, Y10, Y10             \
	VSUBPS      Y15, Y11, Y11             \
	VFMADD213PS Y9, Y8, Y10               \
	VFMADD231PS 64(R13)(BX*1), Y11, Y10   \
	VMULPS      (R12)(BX*1), Y10, Y10     \
	ADD

#define ADD_MIN \
	VBROADCASTSS (R10), Y12     \
	VFMADD231PS  Y13, Y12, Y10
