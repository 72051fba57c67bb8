//go:build !noasm

// Hand-written: arm64 has one vector width, so there is nothing to generate for
// several widths.

#include "go_asm.h"
#include "textflag.h"
#include "neon_arm64.h"
#include "neon_codes_arm64.h"
#include "neon_gemv_arm64.h"

// GEMV kernels of panels of low-bit formats; see neon_gemv_arm64.h. The kernel for four tokens
// would multiply three of zeros.

// LOAD_PLANE loads a plane of signed codes.
#define LOAD_PLANE VLD1.P 64(R1), [V12.B16, V13.B16, V14.B16, V15.B16]

#define PANEL_LOW(p) \
	LOAD_PLANE \
	LOW(p, 12, 13, 14, 15)

#define PANEL_HIGH(p) \
	LOAD_PLANE \
	HIGH(p, 12, 13, 14, 15)

// PANEL_SECOND is PANEL_HIGH with V8-V11 as the sums.
#define PANEL_SECOND(p) \
	LOAD_PLANE           \
	SDOT(17, p, 12, 8)   \
	SDOT(17, p, 13, 9)   \
	SDOT(17, p, 14, 10)  \
	SDOT(17, p, 15, 11)

// func gemvPanelNEON(a *neonGEMV)
// One scale for a group. The kernel does not read start.
TEXT ·gemvPanelNEON(SB), NOSPLIT, $0-8
	VEC_ARGS(512)

loop:
	LOAD_X
	ZERO_SUMS
	PANEL_LOW(0)
	PANEL_LOW(1)
	PANEL_LOW(2)
	PANEL_LOW(3)
	PANEL_HIGH(0)
	PANEL_HIGH(1)
	PANEL_HIGH(2)
	PANEL_HIGH(3)
	VLD1R.P (R6)(R16), [V20.S4]
	LOAD16(R3)
	FINISH
	NEXT_GROUP
	CBNZ R10, loop
	STORE_SUMS
	RET

// func gemvPanelHalvesNEON(a *neonGEMV)
// A factor for each half of a group too, at mins. A product with a factor is exact, and so is their sum.
TEXT ·gemvPanelHalvesNEON(SB), NOSPLIT, $0-8
	VEC_ARGS(512)

loop:
	LOAD_X
	ZERO_SUMS
	ZERO4(V8, V9, V10, V11)
	PANEL_LOW(0)
	PANEL_LOW(1)
	PANEL_LOW(2)
	PANEL_LOW(3)
	PANEL_SECOND(0)
	PANEL_SECOND(1)
	PANEL_SECOND(2)
	PANEL_SECOND(3)
	LOAD16(R4)
	FLOATS(4, 5, 6, 7)
	FLOATS(8, 9, 10, 11)
	VLD1.P 64(R4), [V20.S4, V21.S4, V22.S4, V23.S4]
	FMUL4(12, 4, 4)
	FMUL4(13, 5, 5)
	FMUL4(14, 6, 6)
	FMUL4(15, 7, 7)
	FMLA44(20, 8, 4)
	FMLA44(21, 9, 5)
	FMLA44(22, 10, 6)
	FMLA44(23, 11, 7)
	VLD1R.P (R6)(R16), [V20.S4]
	LOAD16(R3)
	FMUL4(12, 4, 4)
	FMUL4(13, 5, 5)
	FMUL4(14, 6, 6)
	FMUL4(15, 7, 7)
	FMLA4(20, 0, 4, 0)
	FMLA4(20, 0, 5, 1)
	FMLA4(20, 0, 6, 2)
	FMLA4(20, 0, 7, 3)
	NEXT_GROUP
	CBNZ R10, loop
	STORE_SUMS
	RET
