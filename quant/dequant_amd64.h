// What the decoders of AVX2 and AVX-512 have in common.

// ENTER loads the arguments of a decoder.
#define ENTER(count) \
	MOVQ dst+0(FP), DI  \
	MOVQ src+8(FP), SI  \
	MOVQ count+16(FP), BX

// F16_SCALE broadcasts the binary16 number at mem to the register y, of which x
// is the low part.
#define F16_SCALE(mem, x, y) \
	MOVWLZX      mem, AX \
	VMOVD        AX, x   \
	VCVTPH2PS    x, x    \
	VBROADCASTSS x, y

// K_SCALE_BYTES unpacks the 6-bit numbers in the head of a Q4_K or Q5_K block at
// SI: eight scales to R8, a byte each, and eight mins to R9. Destroys R10-R13.
#define K_SCALE_BYTES \
	MOVL 4(SI), R8        \
	MOVL 8(SI), R9        \
	MOVL 12(SI), R10      \
	MOVL R8, R11          \
	MOVL R9, R12          \
	MOVL R10, R13         \
	ANDL $0x3f3f3f3f, R8  \
	ANDL $0x3f3f3f3f, R9  \
	SHRL $2, R11          \
	SHRL $2, R12          \
	ANDL $0x30303030, R11 \
	ANDL $0x30303030, R12 \
	SHRL $4, R13          \
	ANDL $0x0f0f0f0f, R10 \
	ANDL $0x0f0f0f0f, R13 \
	ORL  R11, R10         \
	ORL  R12, R13         \
	SHLQ $32, R10         \
	SHLQ $32, R13         \
	ORQ  R10, R8          \
	ORQ  R13, R9
