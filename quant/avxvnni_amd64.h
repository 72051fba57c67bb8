// The 256-bit VPDPWSSD of AVX-VNNI, which the Go assembler lacks. Arguments are numbers
// of registers, sum at least 8. It adds the products of the values and of the weights in
// Y10, pairs of 16-bit integers, to the sum.
//
// With AVX512VL_VNNI defined, the macro uses the encoding of AVX-512, so that processors
// with AVX-512 can test the kernels of AVX-VNNI: make testvnni.

#ifdef AVX512VL_VNNI
#define VPDPWSSD_WEIGHTS10(values, sum) \
	BYTE $0x62               \
	BYTE $0x52               \
	BYTE $((15-(values))*8+5) \
	BYTE $0x28               \
	BYTE $0x52               \
	BYTE $(0xC2+8*((sum)-8))
#else
#define VPDPWSSD_WEIGHTS10(values, sum) \
	BYTE $0xC4               \
	BYTE $0x42               \
	BYTE $((15-(values))*8+5) \
	BYTE $0x52               \
	BYTE $(0xC2+8*((sum)-8))
#endif
