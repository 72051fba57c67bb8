// Small-N GEMM kernels multiply a tile of 16 rows with two to eight tokens. Memory
// bandwidth limits them as it limits GEMV, so they read packed codes without a panel.
// Registers are those of the panel kernels; the sums of tokens beyond the eighth
// are free and hold
//
//	Z12 the block's scale   Z13 high bits' mask   Z14 low bits' mask
//	Z11 the block's min

#define SMALL_ARGS \
	MOVQ a+0(FP), AX             \
	MOVQ smallArgs_sums(AX), DI    \
	MOVQ smallArgs_tile(AX), SI    \
	MOVQ smallArgs_x(AX), R8       \
	MOVQ smallArgs_dx(AX), R9      \
	MOVQ smallArgs_shift(AX), R10  \
	MOVQ smallArgs_start(AX), R11  \
	MOVQ smallArgs_blocks(AX), CX  \
	MOVQ smallArgs_width(AX), DX   \
	SHLQ $2, DX                  \
	VPBROADCASTD ·startValue(SB), Z31 \
	VPBROADCASTD ·nibbleMask(SB), Z14 \
	VPXORD Z0, Z0, Z0            \
	VPXORD Z1, Z1, Z1            \
	VPXORD Z2, Z2, Z2            \
	VPXORD Z3, Z3, Z3            \
	VPXORD Z4, Z4, Z4            \
	VPXORD Z5, Z5, Z5            \
	VPXORD Z6, Z6, Z6            \
	VPXORD Z7, Z7, Z7

#define CHOOSE_SMALL_WIDTH \
	CMPQ DX, $16 \
	JEQ  width4  \
	JGT  width8

// The prefetch distance in bytes; avx512_gemv_amd64.h has the reasons.
#define AHEAD 2816

#define PREFETCH(at) PREFETCHT1 AHEAD+at(SI)

#define PREFETCH4 \
	PREFETCH(0)   \
	PREFETCH(64)  \
	PREFETCH(128) \
	PREFETCH(192)

#define PREFETCH5 \
	PREFETCH4     \
	PREFETCH(256)

#define PREFETCH6 \
	PREFETCH5     \
	PREFETCH(320)

#define PREFETCH9 \
	PREFETCH6     \
	PREFETCH(384) \
	PREFETCH(448) \
	PREFETCH(512)

// The codes of a group at offset, as LOAD_CODES has them.
#define CODES4(offset) \
	PLANES4(offset, Z16, Z20)     \
	PLANES4(offset+64, Z17, Z21)  \
	PLANES4(offset+128, Z18, Z22) \
	PLANES4(offset+192, Z19, Z23)

#define PLANES4(offset, low, high) \
	VMOVDQU32 offset(SI), high \
	VPANDD    Z14, high, low   \
	VPSRLW    $4, high, high   \
	VPANDD    Z14, high, high

#define NEXT_GROUP(bytes) \
	ADDQ $bytes, SI     \
	LEAQ (R8)(DX*8), R8 \
	ADDQ DX, R9
