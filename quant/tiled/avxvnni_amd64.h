// The 256-bit VPDPBUSD of AVX-VNNI, which the Go assembler lacks. Arguments are numbers
// of registers: below 8 for sum in TOKEN10, at least 8 in TOKEN12, any for codes. They
// add the products of the unsigned codes and the signed token in Y10 or Y12 to the sum.
//
// With AVX512VL_VNNI defined, the macros use the encoding of AVX-512, so that processors
// with AVX-512 can test the kernels of AVX-VNNI: make testvnni.

#ifdef AVX512VL_VNNI
#define VPDPBUSD_TOKEN10(codes, sum) \
	BYTE $0x62             \
	BYTE $0xD2             \
	BYTE $((15-(codes))*8+5) \
	BYTE $0x28             \
	BYTE $0x50             \
	BYTE $(0xC2+8*(sum))

#define VPDPBUSD_TOKEN12(codes, sum) \
	BYTE $0x62             \
	BYTE $0x52             \
	BYTE $((15-(codes))*8+5) \
	BYTE $0x28             \
	BYTE $0x50             \
	BYTE $(0xC4+8*((sum)-8))
#else
#define VPDPBUSD_TOKEN10(codes, sum) \
	BYTE $0xC4             \
	BYTE $0xC2             \
	BYTE $((15-(codes))*8+5) \
	BYTE $0x50             \
	BYTE $(0xC2+8*(sum))

#define VPDPBUSD_TOKEN12(codes, sum) \
	BYTE $0xC4             \
	BYTE $0x42             \
	BYTE $((15-(codes))*8+5) \
	BYTE $0x50             \
	BYTE $(0xC4+8*((sum)-8))
#endif
