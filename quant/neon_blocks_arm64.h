// Macros of the decoders of blocks.
//
//	R0 dst   R1 src   R2 blocks left   V3 scale   V8 offset   V1, V2 codes
//	V30 15 in every byte   V29 the table, or the zero in 16 bits   V24 to V27 constants of FIFTH

#define ENTER \
	MOVD  dst+0(FP), R0    \
	MOVD  src+8(FP), R1    \
	MOVD  blocks+16(FP), R2 \
	VMOVI $15, V30.B16

// HALF widens the next binary16 number to four lanes of v, which number names.
#define HALF(v, number) \
	MOVHU.P 2(R1), R3    \
	VDUP    R3, v.H8     \
	FCVTL4(number, number)

#define NIBBLES \
	VLD1.P 16(R1), [V1.B16]      \
	VUSHR  $4, V1.B16, V2.B16    \
	VAND   V30.B16, V1.B16, V1.B16

#define LOOKUP \
	VTBL V1.B16, [V29.B16], V1.B16 \
	VTBL V2.B16, [V29.B16], V2.B16

// FIFTH_CONSTANTS loads fifthBytes: VTBL indices that copy the byte with bit i to byte i, for 32
// bits, and the masks of these bits.
#define FIFTH_CONSTANTS \
	MOVD  $·fifthBytes(SB), R6                 \
	VLD1  (R6), [V25.B16, V26.B16, V27.B16]    \
	VMOVI $16, V24.B16

// FIFTH sets the fifth bits of the codes from the bits in R5.
#define FIFTH \
	VDUP   R5, V16.S4                        \
	VTBL   V25.B16, [V16.B16], V17.B16       \
	VTBL   V26.B16, [V16.B16], V18.B16       \
	VCMTST V27.B16, V17.B16, V17.B16         \
	VCMTST V27.B16, V18.B16, V18.B16         \
	VAND   V24.B16, V17.B16, V17.B16         \
	VAND   V24.B16, V18.B16, V18.B16         \
	VORR   V17.B16, V1.B16, V1.B16           \
	VORR   V18.B16, V2.B16, V2.B16

// WIDEN extends the sixteen bytes in V(q) to 16 bits in V16 and V17, FLOATS those to float32 times
// the scale in V4 to V7.
#define WIDEN(q) \
	SXTL8(q, 16) \
	SXTL28(q, 17)

#define LESS_ZERO \
	VSUB V29.H8, V16.H8, V16.H8 \
	VSUB V29.H8, V17.H8, V17.H8

#define FLOATS \
	SXTL16(16, 4)   \
	SXTL216(16, 5)  \
	SXTL16(17, 6)   \
	SXTL216(17, 7)  \
	SCVTF4(4, 4)    \
	SCVTF4(5, 5)    \
	SCVTF4(6, 6)    \
	SCVTF4(7, 7)    \
	FMUL4(3, 4, 4)  \
	FMUL4(3, 5, 5)  \
	FMUL4(3, 6, 6)  \
	FMUL4(3, 7, 7)

#define WITH_OFFSET \
	FADD4(8, 4, 4)  \
	FADD4(8, 5, 5)  \
	FADD4(8, 6, 6)  \
	FADD4(8, 7, 7)

#define STORE VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)

#define NEXT_BLOCK \
	SUB  $1, R2    \
	CBNZ R2, loop  \
	RET

// LESS_OFFSET subtracts the offset.
#define LESS_OFFSET \
	FSUB4(8, 4, 4)  \
	FSUB4(8, 5, 5)  \
	FSUB4(8, 6, 6)  \
	FSUB4(8, 7, 7)
