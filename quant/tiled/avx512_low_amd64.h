// Macros of the decoders of low-bit formats with AVX-512 and VBMI. A byte lane of a vector belongs to
// an element of a plane: 16 rows of four elements.
//
// The words of a block fill a vector with a 32-bit lane per row, so one byte of it is an index into a
// code book, or the signs of eight elements, of every row. VPERMT2B looks up 128 bytes of a table; a
// table has the fields of points, four fields of 2 bits (or of 1 bit) a byte. VPMULTISHIFTQB moves the
// field of element j to the lowest bits of byte j of each lane, and the sign to the bit above it, and
// VPERMB replaces both by the element.
//
//	R15 tile block   CX blocks left   DX groups left   SI, R8-R10 words of the next group
//	R11 code book    R14 lowConstants
//	Z8 elements of a plane   Z16-Z19 fields of 1 bit   Z20-Z23 fields of 2 bits   Z24-Z27 signs
//	Z28, Z31 masks of fields   Z29 scale of the block   Z30 levels
//
// The including file defines what happens to planes and scales: OUT(p) takes plane p, OUT_SECOND(p) a
// plane of a second half whose sum is separate, GROUP and HALVES begin a group, SCALE_OUT(t) ends it with
// its scale, and FACTORS_OUT(t, u) with the factors of its halves.

// FIELDS2 loads the places of fields of 2 bits, SIGNS2 those of the low signs, which land on bit 2.
#define FIELDS2 \
	VMOVDQU64 lowTables_fields2+0(R14), Z20   \
	VMOVDQU64 lowTables_fields2+64(R14), Z21  \
	VMOVDQU64 lowTables_fields2+128(R14), Z22 \
	VMOVDQU64 lowTables_fields2+192(R14), Z23 \
	VPBROADCASTD lowTables_mask2(R14), Z31

#define SIGNS2 \
	VMOVDQU64 lowTables_fields1+0(R14), Z24   \
	VMOVDQU64 lowTables_fields1+64(R14), Z25  \
	VMOVDQU64 lowTables_fields1+128(R14), Z26 \
	VMOVDQU64 lowTables_fields1+192(R14), Z27

// SIGNS3 is SIGNS2 for IQ3, whose signs land on bit 3; FIELDS1 are fields of 1 bit that land on bit 2.
#define SIGNS3 \
	VMOVDQU64 lowTables_signs3+0(R14), Z24   \
	VMOVDQU64 lowTables_signs3+64(R14), Z25  \
	VMOVDQU64 lowTables_signs3+128(R14), Z26 \
	VMOVDQU64 lowTables_signs3+192(R14), Z27

#define FIELDS1 \
	VMOVDQU64 lowTables_fields1+0(R14), Z16   \
	VMOVDQU64 lowTables_fields1+64(R14), Z17  \
	VMOVDQU64 lowTables_fields1+128(R14), Z18 \
	VMOVDQU64 lowTables_fields1+192(R14), Z19 \
	VPBROADCASTD lowTables_mask3(R14), Z28

// BLOCK_SCALE loads the binary16 scales at mem times a power of two.
#define BLOCK_SCALE(mem, times) \
	VCVTPH2PS   mem, Z29                    \
	VMULPS.BCST times(R14), Z29, Z29

// LOOKUP128 looks up idx modulo 128 in the bytes at.
#define LOOKUP128(at, idx, out) \
	VMOVDQU64 at(R11), out         \
	VPERMT2B  at+64(R11), idx, out

// LOOKUP256 uses the top bits of idx in K1, LOOKUP512 also a bit in K2, LOOKUP1024 also one in K3.
#define LOOKUP256(at, idx, out, t) \
	LOOKUP128(at, idx, out)     \
	LOOKUP128(at+128, idx, t)   \
	VMOVDQU8 t, K1, out

#define LOOKUP512(at, idx, out, t, u) \
	LOOKUP256(at, idx, out, t)   \
	LOOKUP256(at+256, idx, u, t) \
	VMOVDQU8 u, K2, out

#define LOOKUP1024(at, idx, out, t, u, v) \
	LOOKUP512(at, idx, out, t, u)   \
	LOOKUP512(at+512, idx, v, t, u) \
	VMOVDQU8 v, K3, out

// LOOKUP2048 also uses a bit in K4.
#define LOOKUP2048(at, idx, out, t, u, v, w) \
	LOOKUP1024(at, idx, out, t, u, v)    \
	LOOKUP1024(at+1024, idx, w, t, u, v) \
	VMOVDQU8 w, K4, out

// SEVEN_SIGNS replaces indices of seven signs by the signs of eight elements.
#define SEVEN_SIGNS(idx, out) \
	VMOVDQU64 lowTables_seven(R14), out          \
	VPERMT2B  lowTables_seven+64(R14), idx, out

// PLANE2 computes a plane of elements with fields of 2 bits: word has the fields, signs the signs.
#define PLANE2(p, word, fields, signs, places, OUT) \
	VPMULTISHIFTQB word, fields, Z8         \
	VPMULTISHIFTQB signs, places, Z9        \
	VPTERNLOGD     $0xe2, Z9, Z31, Z8       \
	VPERMB         Z30, Z8, Z8              \
	OUT(p)

// PLANES2 computes a group: Z2 has the fields of the first four of eight elements of each point, Z3
// those of the others, Z4 the signs.
#define PLANES2(SECOND) \
	VPSRLD $4, Z4, Z5                         \
	PLANE2(0, Z2, Z20, Z4, Z24, OUT)          \
	PLANE2(1, Z3, Z20, Z5, Z24, OUT)          \
	PLANE2(2, Z2, Z21, Z4, Z25, OUT)          \
	PLANE2(3, Z3, Z21, Z5, Z25, OUT)          \
	PLANE2(4, Z2, Z22, Z4, Z26, SECOND)       \
	PLANE2(5, Z3, Z22, Z5, Z26, SECOND)       \
	PLANE2(6, Z2, Z23, Z4, Z27, SECOND)       \
	PLANE2(7, Z3, Z23, Z5, Z27, SECOND)

// PLANE3 computes a plane of elements with fields of 3 bits, two in low and one in high.
#define PLANE3(p, low, high, signs, fields, tops, places) \
	VPMULTISHIFTQB low, fields, Z8          \
	VPMULTISHIFTQB high, tops, Z9           \
	VPTERNLOGD     $0xe2, Z9, Z31, Z8       \
	VPMULTISHIFTQB signs, places, Z9        \
	VPTERNLOGD     $0xe2, Z9, Z28, Z8       \
	VPERMB         Z30, Z8, Z8              \
	OUT(p)

// PLANES3 computes four planes: Z2 and Z3 have the fields of a point each byte, signs the signs.
#define PLANES3(p, signs) \
	PLANE3(p, Z2, Z3, signs, Z20, Z16, Z24)   \
	PLANE3(p+1, Z2, Z3, signs, Z21, Z17, Z25) \
	PLANE3(p+2, Z2, Z3, signs, Z22, Z18, Z26) \
	PLANE3(p+3, Z2, Z3, signs, Z23, Z19, Z27)

// ODD converts s in the bits 1 to 4 of 32-bit lanes to the float 2s+1; other bits are ignored.
#define ODD(t) \
	VPANDD.BCST lowTables_thirty(R14), t, t \
	VPORD.BCST  lowTables_one(R14), t, t    \
	VCVTDQ2PS   t, t

// ODD_SCALE ends a group whose scale is that of the block times 2s+1.
#define ODD_SCALE(t) \
	ODD(t)              \
	VMULPS  Z29, t, t   \
	SCALE_OUT(t)

// IQ1_CONSTANTS loads what both formats of IQ1 need; places are those of the upper bits of indices.
#define IQ1_CONSTANTS(places) \
	FIELDS2                               \
	VMOVDQU64 lowTables_levelsIQ1(R14), Z30 \
	VMOVDQU64 places(R14), Z16            \
	VPBROADCASTD lowTables_ones(R14), Z18 \
	VPADDB    Z18, Z18, Z19               \
	VPADDB    Z19, Z19, Z17

// IQ1_POINTS looks up the points whose indices have low bytes in Z0 and upper bits in the words in Z1.
#define IQ1_POINTS \
	VPMULTISHIFTQB Z1, Z16, Z5                    \
	VPMOVB2M  Z0, K1                              \
	VPTESTMB  Z18, Z5, K2                         \
	VPTESTMB  Z19, Z5, K3                         \
	VPTESTMB  Z17, Z5, K4                         \
	LOOKUP2048(0, Z0, Z2, Z6, Z7, Z10, Z14)       \
	LOOKUP2048(2048, Z0, Z3, Z6, Z7, Z10, Z14)

// PLANE1 computes a plane of IQ1_S; Z4 has the signs of the rows in all bits.
#define PLANE1(p, word, fields) \
	VPMULTISHIFTQB word, fields, Z8   \
	VPTERNLOGD     $0xe2, Z4, Z31, Z8 \
	VPERMB         Z30, Z8, Z8        \
	OUT(p)

// SCALE_NIBBLES adds the upper nibbles of the words of 16 bits at mem, moved right, to those in Z29.
#define SCALE_NIBBLES(mem, right) \
	VPMOVZXWD   mem, Z1                         \
	VPANDD.BCST lowTables_upperNibble(R14), Z1, Z1 \
	VPSRLD      $(right), Z1, Z1                \
	VPORD       Z1, Z29, Z29

// NIBBLE_FACTORS ends a group with scales s of its halves in the low and the high nibbles of the bytes at mem.
#define NIBBLE_FACTORS(mem) \
	VPMOVZXBD mem, Z8       \
	VPSLLD    $1, Z8, Z9    \
	VPSRLD    $3, Z8, Z8    \
	ODD(Z9)                 \
	ODD(Z8)                 \
	FACTORS_OUT(Z9, Z8)

// FLOAT8 converts the 8-bit floats at mem, without a sign, to halves of them: their bits are those of a
// very small float32. 0x7f is 0.
#define FLOAT8(mem, t) \
	VPMOVZXBD   mem, t                            \
	VPCMPD.BCST $4, lowTables_notFloat(R14), t, K1 \
	VPSLLD      $20, t, t                         \
	VPANDD.BCST lowTables_float8(R14), t, t       \
	VMULPS.BCST.Z lowTables_toHalf(R14), t, K1, t

// NIBBLES computes two planes of a word of nibbles.
#define NIBBLES(word, p, q, OUT) \
	VMOVDQU64 word, Z0        \
	VPERMB    Z30, Z0, Z8     \
	OUT(p)                    \
	VPSRLW    $4, Z0, Z0      \
	VPERMB    Z30, Z0, Z8     \
	OUT(q)

// TERNARY computes the plane of a word of four codes of 2 bits a byte, of which shift chooses one.
#define TERNARY(p, shift) \
	VMOVDQU64 64*(p)(SI), Z0   \
	VPSRLW    $(shift), Z0, Z0 \
	VPERMB    Z30, Z0, Z8      \
	OUT(p)

#define TERNARY_GROUP(shift) \
	GROUP             \
	TERNARY(0, shift) \
	TERNARY(1, shift) \
	TERNARY(2, shift) \
	TERNARY(3, shift) \
	TERNARY(4, shift) \
	TERNARY(5, shift) \
	TERNARY(6, shift) \
	TERNARY(7, shift) \
	SCALE_OUT(Z29)

// FIELD computes a plane of fields of a word at places, FIELDS four planes of a word with fields of 2 bits.
#define FIELD(p, word, places) \
	VPMULTISHIFTQB word, places, Z8 \
	VPERMB         Z30, Z8, Z8      \
	OUT(p)

#define FIELDS(p, word) \
	FIELD(p, word, Z20)   \
	FIELD(p+1, word, Z21) \
	FIELD(p+2, word, Z22) \
	FIELD(p+3, word, Z23)

// TRITS computes a plane of the first base-3 digits of bytes, which are below 86, below 171 or not.
#define TRITS(p, bytes) \
	VPCMPUB   $5, Z27, bytes, K1 \
	VPCMPUB   $5, Z28, bytes, K2 \
	VMOVDQA64 Z30, Z8            \
	VPADDB    Z31, Z8, K1, Z8    \
	VPADDB    Z31, Z8, K2, Z8    \
	OUT(p)

// TRIPLE drops the first digit of bytes.
#define TRIPLE(bytes) \
	VPADDB bytes, bytes, Z8 \
	VPADDB Z8, bytes, bytes

// LOW_END advances to the next tile block of size bytes.
#define LOW_END(loop, size) \
	ADDQ $size, R15 \
	DECQ CX         \
	JNZ  loop
