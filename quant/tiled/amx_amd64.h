// Encodings of AMX instructions, which the Go assembler lacks. A tile register holds
// up to 16 rows of 64 bytes. LDTILECFG loads the number of rows and bytes per row of
// every tile register; the configuration is valid until TILERELEASE.
//
// t, sums, a and b are tile numbers 0 to 7. base and index are general registers below
// R8, named rAX to rDI; row n of a tile in memory is at base + at + n·index.

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

// TILE_ADDRESS encodes the operands of TILELOADD and TILESTORED.
#define TILE_ADDRESS(t, at, base, index) BYTE $(0x84+8*t); BYTE $(8*index+base); LONG $at

#define TILELOADD(t, at, base, index) VEX; BYTE $0x7B; BYTE $0x4B; TILE_ADDRESS(t, at, base, index)

#define TILESTORED(t, at, base, index) VEX; BYTE $0x7A; BYTE $0x4B; TILE_ADDRESS(t, at, base, index)

// TDPBSSD computes sums[m][n] += Σ_k a[m][k]·b[k][n] in int32 for signed bytes. A row
// of b holds four consecutive k of every column n.
#define TDPBSSD(sums, a, b) VEX; BYTE $(0x03+8*(15-b)); BYTE $0x5E; BYTE $(0xC0+8*sums+a)

// TDPBF16PS computes the same in float32 for bfloat16. A row of b holds two
// consecutive k of every column n.
#define TDPBF16PS(sums, a, b) VEX; BYTE $(0x02+8*(15-b)); BYTE $0x5C; BYTE $(0xC0+8*sums+a)
