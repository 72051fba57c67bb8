//go:build !noasm

// Hand-written: no other instruction set has tile registers. The kernels differ only
// in their macro arguments.

#include "go_asm.h"
#include "textflag.h"
#include "amx_amd64.h"

// GEMM kernels with AMX. With i the integer sum of a group, they compute
//
//	sums[token][row] += Σ i·scale·d + shift·min     over the groups
//
// The codes of a group in a centred panel are one AMX tile: 8 rows, each with four
// bytes of every row of weights. A group of a tile of Activations is another: each
// row is a token. One TDPBSSD computes the integer sums of 16 tokens and 16 rows, a
// tile row per token. Tile registers can move to vector registers only through
// memory. The kernels therefore store the sums of one group while they load and scale
// the sums of the previous group, which hides the latency of the store.
//
// Tile registers belong to a thread, and a goroutine can change its thread between
// functions. Each kernel therefore loads the configuration, computes and releases the
// tiles in one assembly function, which the Go scheduler cannot preempt.
//
//	SI x   AX codes   DI products   R10 scales   R11 dx   R12 mins   R13 shift
//	R8 sums   R9 bytes of x in a group   BX 64   DX GroupElems   R15 groups left
//	CX tiles of tokens left, or tokens in a narrow tile
//	Z0-Z15 sums of the tokens   Z16-Z23 scratch   Z29 min   Z30 scale
//	Z28 startFloat·scale   Z31 startFloat
//
// Tile loads occupy one of the two ports for float instructions, so the kernels avoid
// VCVTDQ2PS: they add startBits to an integer sum and subtract startFloat·scale in the
// multiply-add that scales it.

#define ARGS \
	MOVQ   a+0(FP), R15               \
	MOVQ   kernelArgs_config(R15), AX  \
	LDTILECFG                         \
	MOVQ   kernelArgs_sums(R15), R8   \
	MOVQ   kernelArgs_x(R15), SI      \
	MOVQ   kernelArgs_dx(R15), R11    \
	MOVQ   kernelArgs_shift(R15), R13 \
	MOVQ   kernelArgs_products(R15), DI \
	MOVQ   kernelArgs_width(R15), R9  \
	SHLQ   $5, R9                     \
	MOVQ   $64, BX                    \
	MOVQ   $const_GroupElems, DX      \
	VPBROADCASTD ·startValue(SB), Z31

#define WEIGHTS \
	MOVQ a+0(FP), R15               \
	MOVQ kernelArgs_codes(R15), AX   \
	MOVQ kernelArgs_scales(R15), R10 \
	MOVQ kernelArgs_mins(R15), R12   \
	MOVQ kernelArgs_groups(R15), R15

// PRODUCT computes the integer sums of a group and stores them at DI+at.
#define PRODUCT(at) \
	TILEZERO(const_tileOfSums)                            \
	TILELOADD(const_tileOfTokens, 0, rSI, rDX)            \
	TILELOADD(const_tileOfCodes, 0, rAX, rBX)             \
	TDPBSSD(const_tileOfSums, const_tileOfTokens, const_tileOfCodes) \
	TILESTORED(const_tileOfSums, at, rDI, rBX)            \
	ADDQ R9, SI                                           \
	ADDQ $512, AX

// PRODUCT_WIDE computes the float32 sums of a group from bfloat16 tokens and codes,
// see wideCodesAVX512. The high and low parts of the codes are two tiles; both
// products accumulate into the same sums. All partial sums are integers below 2²⁴.
#define PRODUCT_WIDE(at) \
	TILEZERO(const_tileOfSums)                            \
	TILELOADD(const_tileOfTokens, 0, rSI, rBX)            \
	TILELOADD(const_tileOfCodes, 0, rAX, rBX)             \
	TDPBF16PS(const_tileOfSums, const_tileOfTokens, const_tileOfCodes) \
	TILELOADD(const_tileOfSecondCodes, 1024, rAX, rBX)    \
	TDPBF16PS(const_tileOfSums, const_tileOfTokens, const_tileOfSecondCodes) \
	TILESTORED(const_tileOfSums, at, rDI, rBX)            \
	LEAQ (SI)(R9*2), SI                                   \
	ADDQ $2048, AX

// ADD computes sum += i·scale·dx for the integer sums i at mem.
#define ADD(mem, scale, product, dx, sum, temp) \
	VPADDD           mem, Z31, temp       \
	VFMSUB213PS      product, scale, temp \
	VFMADD231PS.BCST dx, temp, sum

#define PLAIN_ROW(at, t, sum, temp) \
	ADD(at+64*t(DI), Z30, Z28, 4*t(R11), sum, temp)

#define MIN_ROW(at, t, sum, temp) \
	PLAIN_ROW(at, t, sum, temp) \
	VFMADD231PS.BCST 4*t(R13), Z29, sum

// WIDE_ROW is PLAIN_ROW for float32 sums.
#define WIDE_ROW(at, t, sum, temp) \
	VMULPS           at+64*t(DI), Z30, temp \
	VFMADD231PS.BCST 4*t(R11), temp, sum

#define PLAIN_SCALES \
	VMOVUPS (R10), Z30    \
	VMULPS  Z31, Z30, Z28 \
	ADDQ    $64, R10

#define MIN_SCALES \
	PLAIN_SCALES       \
	VMOVUPS (R12), Z29 \
	ADDQ    $64, R12

#define WIDE_SCALES \
	VMOVUPS (R10), Z30 \
	ADDQ    $64, R10

// FLOATS adds the products of a group at DI+at to the sums of 16 tokens.
#define FLOATS(at, SCALES, ROW) \
	SCALES               \
	ROW(at, 0, Z0, Z16)  \
	ROW(at, 1, Z1, Z17)  \
	ROW(at, 2, Z2, Z18)  \
	ROW(at, 3, Z3, Z19)  \
	ROW(at, 4, Z4, Z20)  \
	ROW(at, 5, Z5, Z21)  \
	ROW(at, 6, Z6, Z22)  \
	ROW(at, 7, Z7, Z23)  \
	ROW(at, 8, Z8, Z16)  \
	ROW(at, 9, Z9, Z17)  \
	ROW(at, 10, Z10, Z18) \
	ROW(at, 11, Z11, Z19) \
	ROW(at, 12, Z12, Z20) \
	ROW(at, 13, Z13, Z21) \
	ROW(at, 14, Z14, Z22) \
	ROW(at, 15, Z15, Z23) \
	ADDQ $64, R11        \
	ADDQ $64, R13

// SUMS applies DO to the sums of all tokens of a tile.
#define SUMS(DO) \
	DO(0, Z0) DO(1, Z1) DO(2, Z2) DO(3, Z3) DO(4, Z4) DO(5, Z5) DO(6, Z6) DO(7, Z7) \
	DO(8, Z8) DO(9, Z9) DO(10, Z10) DO(11, Z11) DO(12, Z12) DO(13, Z13) DO(14, Z14) DO(15, Z15)

#define LOAD(t, sum) VMOVUPS 64*t(R8), sum;
#define STORE(t, sum) VMOVUPS sum, 64*t(R8);

// SKIP_TOKENS advances x over the groups between two tiles of tokens. Widened
// activations contain only the panel's groups, so SKIP_NOTHING is for them.
#define SKIP_TOKENS LEAQ (SI)(R15*8), SI
#define SKIP_NOTHING ADDQ $0, SI

// TILES loops over full tiles of 16 tokens and, for each, over the groups. The sums
// of even groups are at DI, those of odd groups at DI+1024.
#define TILES(PRODUCT, SCALES, ROW, SKIP) \
	ARGS                     \
	MOVQ kernelArgs_tiles(R15), CX \
tile:                            \
	WEIGHTS                  \
	PRODUCT(0)               \
	SUMS(LOAD)               \
group:                           \
	DECQ R15                 \
	JZ   lastEven            \
	PRODUCT(1024)            \
	FLOATS(0, SCALES, ROW)   \
	DECQ R15                 \
	JZ   lastOdd             \
	PRODUCT(0)               \
	FLOATS(1024, SCALES, ROW) \
	JMP  group               \
lastOdd:                         \
	FLOATS(1024, SCALES, ROW) \
	JMP  next                \
lastEven:                        \
	FLOATS(0, SCALES, ROW)   \
next:                            \
	SUMS(STORE)              \
	ADDQ $1024, R8           \
	MOVQ a+0(FP), R15        \
	MOVQ kernelArgs_skip(R15), R15 \
	SHLQ $6, R15             \
	ADDQ R15, R11            \
	ADDQ R15, R13            \
	SKIP                     \
	DECQ CX                  \
	JNZ  tile                \
	TILERELEASE              \
	VZEROUPPER               \
	RET

// func mulPlainAMX(a *kernelArgs)
// Formats without a min, full tiles of tokens.
TEXT ·mulPlainAMX(SB), NOSPLIT, $0-8
	TILES(PRODUCT, PLAIN_SCALES, PLAIN_ROW, SKIP_TOKENS)

// func mulMinsAMX(a *kernelArgs)
// Formats with a min, full tiles of tokens.
TEXT ·mulMinsAMX(SB), NOSPLIT, $0-8
	TILES(PRODUCT, MIN_SCALES, MIN_ROW, SKIP_TOKENS)

// func mulWideAMX(a *kernelArgs)
// Q6_K in bfloat16, full tiles of tokens. x and codes point to bfloat16 numbers.
TEXT ·mulWideAMX(SB), NOSPLIT, $0-8
	TILES(PRODUCT_WIDE, WIDE_SCALES, WIDE_ROW, SKIP_NOTHING)

// NARROW multiplies one tile of fewer than 16 tokens. It scales the sums token by
// token.
#define NARROW(PRODUCT, SCALES, ROW) \
	ARGS                 \
	SHRQ $5, R9          \
	MOVQ R9, CX          \
	SHLQ $5, R9          \
	WEIGHTS              \
group:                       \
	PRODUCT(0)           \
	SCALES               \
	MOVQ CX, R14         \
token:                       \
	VMOVUPS (R8), Z0     \
	ROW(0, 0, Z0, Z16)   \
	VMOVUPS Z0, (R8)     \
	ADDQ $64, R8         \
	ADDQ $64, DI         \
	ADDQ $4, R11         \
	ADDQ $4, R13         \
	DECQ R14             \
	JNZ  token           \
	MOVQ CX, R14         \
	SHLQ $6, R14         \
	SUBQ R14, R8         \
	SUBQ R14, DI         \
	DECQ R15             \
	JNZ  group           \
	TILERELEASE          \
	VZEROUPPER           \
	RET

// func narrowPlainAMX(a *kernelArgs)
// mulPlainAMX for one tile of 1, 2, 4 or 8 tokens.
TEXT ·narrowPlainAMX(SB), NOSPLIT, $0-8
	NARROW(PRODUCT, PLAIN_SCALES, PLAIN_ROW)

// func narrowMinsAMX(a *kernelArgs)
// mulMinsAMX for one tile of 1, 2, 4 or 8 tokens.
TEXT ·narrowMinsAMX(SB), NOSPLIT, $0-8
	NARROW(PRODUCT, MIN_SCALES, MIN_ROW)

// func narrowWideAMX(a *kernelArgs)
// mulWideAMX for one tile of 1, 2, 4 or 8 tokens.
TEXT ·narrowWideAMX(SB), NOSPLIT, $0-8
	NARROW(PRODUCT_WIDE, WIDE_SCALES, WIDE_ROW)

// func centreAVX512(codes *uint8, groups int, zero uint8)
// It subtracts zero from codes [groups][planes][64] in place.
TEXT ·centreAVX512(SB), NOSPLIT, $0-17
	MOVQ         codes+0(FP), SI
	MOVQ         groups+8(FP), CX
	VPBROADCASTB zero+16(FP), Z0
	SHLQ         $3, CX

plane:
	VMOVDQU32 (SI), Z1
	VPSUBB    Z0, Z1, Z1
	VMOVDQU32 Z1, (SI)
	ADDQ      $64, SI
	DECQ      CX
	JNZ       plane
	VZEROUPPER
	RET
