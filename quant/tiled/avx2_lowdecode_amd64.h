// Macros of the decoders of low-bit formats with AVX2, which decode eight rows of all blocks and then the
// others. Half a plane, four elements of eight rows, fills a vector. VPGATHERDD reads the coordinates
// of a point for each row.
//
//	DI codes   R12 scales   R13 factors   R15 tile block   CX blocks left   DX groups left
//	BX 0 for the first rows, 32 for the others    SI, R8-R10 words of the next group
//	R11 code book   R14 lowConstants256
//	Y6 signs   Y12 scale of the block   Y13 zero points   Y14, Y15 bits 0-3 and 4-7 of bytes 0-3

#define LOW_ROWS \
	MOVQ a+0(FP), AX              \
	MOVQ lowArgs_codes(AX), DI    \
	MOVQ lowArgs_scales(AX), R12  \
	MOVQ lowArgs_factors(AX), R13 \
	MOVQ lowArgs_tile(AX), R15    \
	MOVQ lowArgs_book(AX), R11    \
	MOVQ lowArgs_blocks(AX), CX   \
	LEAQ ·lowConstants256(SB), R14 \
	ADDQ BX, DI                   \
	ADDQ BX, R12                  \
	ADDQ BX, R13                  \
	VPBROADCASTD ·topBits(SB), Y13 \
	VPBROADCASTD lowTables256_lowBits(R14), Y14 \
	VPBROADCASTD lowTables256_topBits(R14), Y15

// WORDS sets a register to words of four bytes of the rows, HALF_WORDS of two and BYTES of one.
#define WORDS(at, to) LEAQ at(R15)(BX*1), to
#define HALF_WORDS(at, to) \
	MOVQ BX, AX          \
	SHRQ $1, AX          \
	LEAQ at(R15)(AX*1), to
#define BYTES(at, to) \
	MOVQ BX, AX          \
	SHRQ $2, AX          \
	LEAQ at(R15)(AX*1), to

// BLOCK_SCALE loads the binary16 scales at R10 times a number.
#define BLOCK_SCALE(times) \
	VBROADCASTSS times(R14), Y1 \
	VCVTPH2PS    (R10), Y12     \
	VMULPS       Y1, Y12, Y12

// GATHER reads 32 bits of the points idx, at a distance of size bytes.
#define GATHER(at, size, idx, out) \
	VPCMPEQD   Y7, Y7, Y7                  \
	VPGATHERDD Y7, at(R11)(idx*size), out

// SIGNED stores half a plane of coordinates, which are negative where the bits of byte k of signs are set.
#define SIGNED(p, k, bits, point) \
	VPSHUFB  lowTables256_pick+32*(k)(R14), Y6, Y8 \
	VPAND    bits, Y8, Y8         \
	VPCMPEQB bits, Y8, Y8         \
	VPXOR    Y8, point, point     \
	VPSUBB   Y8, point, point     \
	VPXOR    Y13, point, point    \
	VMOVDQU  point, 64*(p)(DI)

// POINT8 stores the eight coordinates of the points in Y3, with the signs in byte k.
#define POINT8(k) \
	GATHER(0, 8, Y3, Y4)       \
	GATHER(4, 8, Y3, Y5)       \
	SIGNED(2*(k), k, Y14, Y4)  \
	SIGNED(2*(k)+1, k, Y15, Y5)

// POINT4 stores the four coordinates of the points in Y3, plane p.
#define POINT4(p, bits) \
	GATHER(0, 4, Y3, Y4)   \
	SIGNED(p, (p)/2, bits, Y4)

// BYTE_INDEX takes byte k of words as index.
#define BYTE_INDEX(k, words) \
	VPSRLD $(8*(k)), words, Y3 \
	VPAND  Y11, Y3, Y3

// ADD_HIGH adds the bits of mask of high, shifted left.
#define ADD_HIGH(left, high, mask) \
	VPSLLD $(left), high, Y8 \
	VPAND  mask, Y8, Y8      \
	VPOR   Y8, Y3, Y3

// EVEN_SIGNS completes seven signs in each byte of Y6 to eight.
#define EVEN_SIGNS \
	VMOVDQU  lowTables256_parity(R14), Y8 \
	VPAND    lowTables256_nibbles(R14), Y6, Y4 \
	VPSRLW   $4, Y6, Y5 \
	VPAND    lowTables256_nibbles(R14), Y5, Y5 \
	VPSHUFB  Y4, Y8, Y4 \
	VPSHUFB  Y5, Y8, Y5 \
	VPXOR    Y4, Y5, Y4 \
	VPOR     Y4, Y6, Y6

// SPREAD_SEVENS sets Y6 to eight signs for the four times seven bits of words.
#define SPREAD_SEVENS(words) \
	VPAND  lowTables256_sevens+0(R14), words, Y6 \
	VPSLLD $1, words, Y4 \
	VPAND  lowTables256_sevens+32(R14), Y4, Y4 \
	VPOR   Y4, Y6, Y6 \
	VPSLLD $2, words, Y4 \
	VPAND  lowTables256_sevens+64(R14), Y4, Y4 \
	VPOR   Y4, Y6, Y6 \
	VPSLLD $3, words, Y4 \
	VPAND  lowTables256_sevens+96(R14), Y4, Y4 \
	VPOR   Y4, Y6, Y6 \
	EVEN_SIGNS

// ODD converts s in the bits 1 to 4 of 32-bit lanes to the float 2s+1.
#define ODD(t) \
	VPAND     lowTables256_thirty(R14), t, t \
	VPOR      lowTables256_one(R14), t, t    \
	VCVTDQ2PS t, t

#define ODD_SCALE(t) \
	ODD(t)             \
	VMULPS  Y12, t, t  \
	VMOVUPS t, (R12)

#define NIBBLE_FACTORS(mem) \
	VPMOVZXBD mem, Y8        \
	VPSLLD    $1, Y8, Y9     \
	VPSRLD    $3, Y8, Y8     \
	ODD(Y9)                  \
	ODD(Y8)                  \
	VMOVUPS   Y9, (R13)      \
	VMOVUPS   Y8, 64(R13)    \
	VMOVUPS   Y12, (R12)     \
	ADDQ      $128, R13

// NEXT_GROUP and NEXT_BLOCK end the loops, OTHER_ROWS the kernel.
#define LOW_GROUP(loop) \
	ADDQ $512, DI \
	ADDQ $64, R12 \
	DECQ DX       \
	JNZ  loop

#define LOW_BLOCK(loop, size) \
	ADDQ $size, R15 \
	DECQ CX         \
	JNZ  loop

#define OTHER_ROWS(rows) \
	ADDQ $32, BX     \
	CMPQ BX, $64     \
	JNE  rows        \
	VZEROUPPER       \
	RET
