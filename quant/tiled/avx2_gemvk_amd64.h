// Macros of the GEMV kernels with 256-bit vectors for superblocks, besides those in
// avx2_gemv_amd64.h. R13 and R14 are the heads of the two tiles' blocks, R12 is their
// unpacked scales, and AX is 32 times the index of the group.

// NEXT_SCALES goes to the scales of the next group. It sets the zero flag after the
// last group of a block.
#define NEXT_SCALES \
	ADDQ $16, R12 \
	ADDQ $32, AX  \
	CMPQ AX, $256

#define NEXT_HALVES ADDQ $8, R11

// SIX unpacks planes p and p+4 of eight rows to Y8 and Y9: their nibbles at
// at+128(src), their high bits at at(src) and at+64(src). SHIFT moves the planes'
// fields of these to bits 4 and 5.
#define SIX(src, at, p, SHIFT) \
	VMOVDQU 64*(p)+128+at(src), Y9 \
	VMOVDQU at(src), Y11           \
	VPAND   Y15, Y9, Y8            \
	VPSRLW  $4, Y9, Y9             \
	SHIFT                          \
	VPAND   Y14, Y11, Y11          \
	VPAND   Y15, Y9, Y9            \
	VPOR    Y11, Y8, Y8            \
	VMOVDQU 64+at(src), Y11        \
	SHIFT                          \
	VPAND   Y14, Y11, Y11          \
	VPOR    Y11, Y9, Y9

// GROUP_Bytes6 adds (factor0·i0 + factor1·i1)·scale·d to the sums, where i0 and i1 are
// the integer sums of a group's halves.
#define GROUP_Bytes6(src, sumA, sumB, head) \
	PREFETCH6(src) \
	SIX_SUMS(src)  \
	END_HALVES(sumA, sumB, head)

// END_HALVES computes sums += (factor0·i0 + factor1·i1)·scale·d from the integer sums
// i0 in Y4 and Y5, and i1 in Y6 and Y7. float32 represents the factors, the sums and
// the products exactly. Adding zero turns a product of -0 into +0.
#define END_HALVES(sumA, sumB, head) \
	VPBROADCASTD (R11), Y10           \
	VPBROADCASTD 4(R11), Y11          \
	VBROADCASTSS ·startValue(SB), Y12 \
	VPADDD       Y10, Y4, Y4          \
	VPADDD       Y10, Y5, Y5          \
	VPADDD       Y11, Y6, Y6          \
	VPADDD       Y11, Y7, Y7          \
	VSUBPS       Y12, Y4, Y4          \
	VSUBPS       Y12, Y5, Y5          \
	VSUBPS       Y12, Y6, Y6          \
	VSUBPS       Y12, Y7, Y7          \
	FACTOR(32(head)(AX*1), Y8)        \
	FACTOR(40(head)(AX*1), Y9)        \
	FACTOR(48(head)(AX*1), Y10)       \
	FACTOR(56(head)(AX*1), Y11)       \
	VXORPS       Y12, Y12, Y12        \
	VFMADD213PS  Y12, Y8, Y4          \
	VFMADD213PS  Y12, Y9, Y5          \
	VFMADD231PS  Y10, Y6, Y4          \
	VFMADD231PS  Y11, Y7, Y5          \
	VCVTPH2PS    (head), Y8           \
	VCVTPH2PS    16(head), Y9         \
	VBROADCASTSS (R9), Y10            \
	VMULPS       Y8, Y4, Y4           \
	VMULPS       Y9, Y5, Y5           \
	VFMADD231PS  Y10, Y4, sumA        \
	VFMADD231PS  Y10, Y5, sumB

#define FACTOR(mem, factor) \
	VPMOVSXBD mem, factor    \
	VCVTDQ2PS factor, factor

// Shifts of high bits.
#define LEFT4 VPSLLW $4, Y11, Y11
#define LEFT2 VPSLLW $2, Y11, Y11
#define THERE
#define RIGHT2 VPSRLW $2, Y11, Y11

// HEADS_OF leaves pointers to the heads of both blocks in R13 and R14 and advances
// both tiles over them.
#define HEADS_OF(bytes) \
	MOVQ SI, R13    \
	MOVQ BX, R14    \
	ADDQ $bytes, SI \
	ADDQ $bytes, BX \
	XORL AX, AX

// BYTE_HEADS reads the heads of two Q6_K blocks.
#define BYTE_HEADS \
	PREFETCH5(SI) \
	PREFETCH5(BX) \
	HEADS_OF(288)

// PAIR_HEADS reads the heads of two Q4_K or Q5_K blocks. It unpacks the 6-bit scales
// and mins to bytes at R12 and R12+256: [8][16] scales, then [8][16] mins. It leaves pointers
// to the blocks' scales and mins as floats, in the panel's memory, in R13 and R14.
#define PAIR_HEADS \
	LEAQ pairs-512(SP), R12         \
	PREFETCH4(SI)                   \
	PREFETCH4(BX)                   \
	VPBROADCASTD ·highMask(SB), Y12 \
	PAIRS(SI, 0, 0)                 \
	PAIRS(SI, 32, 32)               \
	PAIRS(BX, 0, 256)               \
	PAIRS(BX, 32, 288)              \
	MOVQ smallArgs_panel(R15), R13  \
	MOVQ panel_scales(R13), R13     \
	LEAQ 128(R13), R14              \
	HALVES(SI, 0, R13)              \
	HALVES(SI, 32, R13)             \
	HALVES(BX, 0, R14)              \
	HALVES(BX, 32, R14)             \
	ADDQ $256, SI                   \
	ADDQ $256, BX                   \
	XORL AX, AX

// HALVES converts 16 binary16 numbers of a head, at bytes further, to floats at to.
#define HALVES(src, at, to) \
	VCVTPH2PS at(src), Y4      \
	VCVTPH2PS at+16(src), Y5   \
	VMOVUPS   Y4, 2*(at)(to)   \
	VMOVUPS   Y5, 2*(at)+32(to)

// PAIRS unpacks the scales and mins of two groups and of the groups four further.
#define PAIRS(src, at, to) \
	VMOVDQU 64+at(src), Y4     \
	VMOVDQU 128+at(src), Y5    \
	VMOVDQU 192+at(src), Y6    \
	VPAND   Y15, Y4, Y7        \
	VPSRLW  $4, Y4, Y4         \
	VPAND   Y15, Y4, Y4        \
	VPSLLW  $4, Y6, Y8         \
	WITH_HIGH(Y8, Y7, to)      \
	VPSLLW  $2, Y6, Y8         \
	WITH_HIGH(Y8, Y4, to+128)  \
	VPAND   Y15, Y5, Y7        \
	VPSRLW  $4, Y5, Y5         \
	VPAND   Y15, Y5, Y5        \
	VPSRLW  $2, Y6, Y8         \
	WITH_HIGH(Y6, Y7, to+64)   \
	WITH_HIGH(Y8, Y5, to+192)

// WITH_HIGH stores low with bits 4 and 5 of high. Y12 is 0x30 in every byte.
#define WITH_HIGH(high, low, to) \
	VPAND   Y12, high, high \
	VPOR    high, low, low  \
	VMOVDQU low, to(R12)

// PAIR_SCALE computes the scales and mins of the next group.
#define PAIR_SCALE(bytes, head) \
	VPMOVZXBD bytes(R12), Y8      \
	VPMOVZXBD bytes+8(R12), Y9    \
	VPMOVZXBD bytes+128(R12), Y6  \
	VPMOVZXBD bytes+136(R12), Y7  \
	VCVTDQ2PS Y8, Y8              \
	VCVTDQ2PS Y9, Y9              \
	VCVTDQ2PS Y6, Y6              \
	VCVTDQ2PS Y7, Y7              \
	VMULPS    (head), Y8, Y8      \
	VMULPS    32(head), Y9, Y9    \
	VMULPS    64(head), Y6, Y6    \
	VMULPS    96(head), Y7, Y7

// SIX_HEADS reads the heads of two IQ4_XS blocks. It unpacks their 6-bit scales, less
// 32, to bytes at R12 and R12+128, [8][16], and leaves pointers to the blocks' scales as floats in
// R13 and R14.
#define SIX_HEADS \
	LEAQ factors-256(SP), R12       \
	PREFETCH4(SI)                   \
	PREFETCH4(BX)                   \
	VPBROADCASTD ·highMask(SB), Y12 \
	VPBROADCASTB ·thirtyTwo(SB), Y11 \
	SIX_SCALES(SI, 0)               \
	SIX_SCALES(BX, 128)             \
	MOVQ smallArgs_panel(R15), R13  \
	MOVQ panel_scales(R13), R13     \
	LEAQ 64(R13), R14               \
	HALVES(SI, 0, R13)              \
	HALVES(BX, 0, R14)              \
	ADDQ $128, SI                   \
	ADDQ $128, BX                   \
	XORL AX, AX

#define SIX_SCALES(src, to) \
	VMOVDQU 96(src), Y6            \
	VPSLLW  $4, Y6, Y8             \
	SIX_SCALES4(32(src), Y8, Y6, to)    \
	VPSLLW  $2, Y6, Y8             \
	VPSRLW  $2, Y6, Y7             \
	SIX_SCALES4(64(src), Y8, Y7, to+32)

// SIX_SCALES4 unpacks the scales of two groups and of the groups four further.
#define SIX_SCALES4(mem, first, second, to) \
	VMOVDQU mem, Y4            \
	VPAND   Y15, Y4, Y5        \
	VPSRLW  $4, Y4, Y4         \
	VPAND   Y15, Y4, Y4        \
	VPAND   Y12, first, first  \
	VPAND   Y12, second, Y10   \
	VPOR    first, Y5, Y5      \
	VPOR    Y10, Y4, Y4        \
	VPSUBB  Y11, Y5, Y5        \
	VPSUBB  Y11, Y4, Y4        \
	VMOVDQU Y5, to(R12)        \
	VMOVDQU Y4, to+64(R12)

// SIX_SCALE computes the scales of the next group.
#define SIX_SCALE(bytes, head) \
	VPMOVSXBD bytes(R12), Y8    \
	VPMOVSXBD bytes+8(R12), Y9  \
	VCVTDQ2PS Y8, Y8            \
	VCVTDQ2PS Y9, Y9            \
	VMULPS    (head), Y8, Y8    \
	VMULPS    32(head), Y9, Y9
