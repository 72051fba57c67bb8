//go:build !noasm

#include "textflag.h"

// Hand-written: only arm64 has an instruction for eight bytes at a time.
//
// The CRC32CX instruction consumes eight bytes. Most cores start one each cycle, but its
// latency is two or three cycles, so a single dependent chain leaves the unit idle. Each
// iteration therefore checksums three streams of 1024 bytes in parallel.

// SUM48 consumes the next 16 bytes of each stream.
#define SUM48(offset) \
	LDP     offset(R1), (R8, R9)  \
	LDP     offset(R2), (R10, R11) \
	LDP     offset(R3), (R12, R13) \
	CRC32CX R8, R4                \
	CRC32CX R10, R5               \
	CRC32CX R12, R6               \
	CRC32CX R9, R4                \
	CRC32CX R11, R5               \
	CRC32CX R13, R6

// func fold(state uint32, data *byte, n int) uint32
// n is a positive multiple of 3072. R1, R2 and R3 point to the three streams; R4, R5 and R6
// hold their CRC states. To append the following bytes, a state is multiplied by
// x^(8·bytes) modulo the polynomial. Bits are reflected: the code multiplies by
// x^(8·bytes-33), which gives 64 bits, and CRC32CX reduces them.
TEXT ·fold(SB), NOSPLIT, $0-28
	MOVWU state+0(FP), R4
	MOVD  data+8(FP), R1
	MOVD  n+16(FP), R0
	ADD   R1, R0
	MOVD  $0xa51b6135, R8
	FMOVD R8, F2
	MOVD  $0x170076fa, R8
	FMOVD R8, F3

iteration:
	ADD  $1024, R1, R2
	ADD  $2048, R1, R3
	MOVD $0, R5
	MOVD $0, R6
	MOVD $16, R7

step:
	PRFM 3072(R1), PLDL1STRM // a device wrote the data: no cache of this core holds it
	PRFM 3072(R2), PLDL1STRM
	PRFM 3072(R3), PLDL1STRM
	SUM48(0)
	SUM48(16)
	SUM48(32)
	SUM48(48)
	ADD  $64, R1
	ADD  $64, R2
	ADD  $64, R3
	SUB  $1, R7
	CBNZ R7, step

	FMOVD   R4, F0
	FMOVD   R5, F1
	VPMULL  V2.D1, V0.D1, V0.Q1
	VPMULL  V3.D1, V1.D1, V1.Q1
	VEOR    V1.B16, V0.B16, V0.B16
	FMOVD   F0, R8
	MOVD    $0, R4
	CRC32CX R8, R4
	EORW    R6, R4
	MOVD    R3, R1
	CMP     R0, R1
	BNE     iteration
	MOVW    R4, ret+24(FP)
	RET
