// Instructions of AMX, which the assembler does not know. A tile register holds
// up to 16 rows of 64 bytes. The operand of LDTILECFG sets the rows and bytes in use
// until TILERELEASE.
//
// base and index are numbers of general registers below R8: addresses of rows
// are base+at plus index for every row before it.

#define rAX 0
#define rBX 3
#define rDX 2
#define rSI 6
#define rDI 7

#define VEX BYTE $0xC4; BYTE $0xE2

// LDTILECFG (AX)
#define LDTILECFG VEX; BYTE $0x78; BYTE $0x49; BYTE $0x00

#define TILERELEASE VEX; BYTE $0x78; BYTE $0x49; BYTE $0xC0

#define TILEZERO(t) VEX; BYTE $0x7B; BYTE $0x49; BYTE $(0xC0+8*t)

// TILE_ADDRESS is the end of an instruction with a tile in memory.
#define TILE_ADDRESS(t, at, base, index) BYTE $(0x84+8*t); BYTE $(8*index+base); LONG $at

#define TILELOADD(t, at, base, index) VEX; BYTE $0x7B; BYTE $0x4B; TILE_ADDRESS(t, at, base, index)

#define TILESTORED(t, at, base, index) VEX; BYTE $0x7A; BYTE $0x4B; TILE_ADDRESS(t, at, base, index)

// TDPBSSD adds to sums, 32-bit numbers, the products of signed bytes: of row m
// of a with column n of b, whose rows hold four bytes of every column.
#define TDPBSSD(sums, a, b) VEX; BYTE $(0x03+8*(15-b)); BYTE $0x5E; BYTE $(0xC0+8*sums+a)

// TDPBF16PS adds, in float32, the products of bfloat16 numbers: rows of b hold two
// of every column.
#define TDPBF16PS(sums, a, b) VEX; BYTE $(0x02+8*(15-b)); BYTE $0x5C; BYTE $(0xC0+8*sums+a)
