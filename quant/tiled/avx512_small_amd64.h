// Macros of the small-N GEMM kernels with AVX-512. With i the integer sum of a group,
// the kernels compute
//
//	sums[token][row] = Σ i·scale·d + shift·min     over the groups
//
// for one packed tile of 16 rows and 2, 4 or 8 tokens. They unpack codes in registers,
// so memory bandwidth is the limit. Registers are those in avx512_panel_amd64.h,
// except:
//
//	SI tile   CX blocks left   BX groups left in a superblock   R12 its scales
//	Z11 min of the superblock   Z12 scale of the superblock
//	Z13 mask of the high bits, or the table   Z14 0x0F in every byte

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

// The including file defines AHEAD and FETCH, see avx512_gemv_amd64.h.
#define PREFETCH(at) FETCH AHEAD+at(SI)

#define PREFETCH2 \
	PREFETCH(0)   \
	PREFETCH(64)

#define PREFETCH4 \
	PREFETCH2     \
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

// CODES4 unpacks the nibbles of a group at offset(SI) to Z16-Z23, like LOAD_CODES.
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
