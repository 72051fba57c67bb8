// Macros of the quantization kernels that store the numbers of a group. Y0 holds its
// codes, X4 its scale, and Y1 partial sums of its codes, four int32 for each half of the
// group. The kernels document the other registers.

// GROUP_NUMBERS sums the codes of both halves to BX and AX and stores, for each half,
// halfStart = startBits - 32·Σ codes. For the group, it stores shift = -scale·Σ codes
// and start8, start16 and start128 = startBits - zero·Σ codes.
#define GROUP_NUMBERS \
	VPSHUFD      $0x4E, Y1, Y2                  \
	VPADDD       Y2, Y1, Y1                     \
	VPSHUFD      $0xB1, Y1, Y2                  \
	VPADDD       Y2, Y1, Y1                     \
	VEXTRACTI128 $1, Y1, X2                     \
	VMOVD        X1, BX                         \
	VMOVD        X2, AX                         \
	MOVL         BX, R15                        \
	SHLL         $5, R15                        \
	NEGL         R15                            \
	ADDL         $const_startBits, R15          \
	MOVL         R15, (R13)                     \
	MOVL         AX, R15                        \
	SHLL         $5, R15                        \
	NEGL         R15                            \
	ADDL         $const_startBits, R15          \
	MOVL         R15, (R13)(DX*1)               \
	ADDL         BX, AX                         \
	NEGL         AX                             \
	VXORPS       X2, X2, X2                     \
	VCVTSI2SSL   AX, X2, X2                     \
	VMULSS       X4, X2, X2                     \
	VMOVSS       X2, (R9)                       \
	LEAL         const_startBits(AX*8), R15     \
	MOVL         R15, (R10)                     \
	SHLL         $4, AX                         \
	LEAL         const_startBits(AX), R15       \
	MOVL         R15, (R11)                     \
	LEAL         const_startBits(AX*8), R15     \
	MOVL         R15, (R12)

// NEXT_QUANTIZED advances to the next group and sets the zero flag after the last one.
#define NEXT_QUANTIZED \
	ADDQ $128, SI       \
	LEAQ (DI)(DX*8), DI \
	ADDQ DX, R8         \
	ADDQ DX, R9         \
	ADDQ DX, R10        \
	ADDQ DX, R11        \
	ADDQ DX, R12        \
	LEAQ (R13)(DX*2), R13 \
	DECQ CX
