package quant

import "encoding/binary"

// The formats of this file have blocks of 32 elements with one scale, and some
// an offset. A byte of packed quants holds element i in its low nibble and
// element i+16 in its high one.

// blockQ4_0: scale f16, 16 bytes of nibbles; x = scale * (q-8).
func blockQ4_0(dst []float32 /* [32] */, src []byte /* [18] */) {
	scale := f16At(src)
	low, high := dst[:16], dst[16:32]
	for i, b := range src[2:18] {
		low[i] = scale * float32(int(b&0xf)-8)
		high[i] = scale * float32(int(b>>4)-8)
	}
}

// blockQ4_1: scale f16, offset f16, 16 bytes of nibbles; x = scale*q + offset.
func blockQ4_1(dst []float32 /* [32] */, src []byte /* [20] */) {
	scale, offset := f16At(src), f16At(src[2:])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[4:20] {
		low[i] = float32(scale*float32(b&0xf)) + offset
		high[i] = float32(scale*float32(b>>4)) + offset
	}
}

// blockI4Z: scale f16, zero u8, 16 bytes of nibbles; x = scale * (q-zero), which
// is exact.
func blockI4Z(dst []float32 /* [32] */, src []byte /* [19] */) {
	scale, zero := f16At(src), int(src[2])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[3:19] {
		low[i] = scale * float32(int(b&0xf)-zero)
		high[i] = scale * float32(int(b>>4)-zero)
	}
}

// blockQ5_0: scale f16, 32 fifth bits, 16 bytes of nibbles; x = scale * (q-16).
func blockQ5_0(dst []float32 /* [32] */, src []byte /* [22] */) {
	scale, fifth := f16At(src), binary.LittleEndian.Uint32(src[2:])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[6:22] {
		low[i] = scale * float32(int(b&0xf)|int(fifth>>i&1)<<4-16)
		high[i] = scale * float32(int(b>>4)|int(fifth>>(i+16)&1)<<4-16)
	}
}

// blockQ5_1: scale f16, offset f16, 32 fifth bits, 16 bytes of nibbles;
// x = scale*q + offset.
func blockQ5_1(dst []float32 /* [32] */, src []byte /* [24] */) {
	scale, offset, fifth := f16At(src), f16At(src[2:]), binary.LittleEndian.Uint32(src[4:])
	low, high := dst[:16], dst[16:32]
	for i, b := range src[8:24] {
		low[i] = float32(scale*float32(uint32(b&0xf)|fifth>>i&1<<4)) + offset
		high[i] = float32(scale*float32(uint32(b>>4)|fifth>>(i+16)&1<<4)) + offset
	}
}

// blockQ8_0: scale f16, 32 signed bytes; x = scale * q.
func blockQ8_0(dst []float32 /* [32] */, src []byte /* [34] */) {
	scale := f16At(src)
	dst = dst[:32]
	for i, b := range src[2:34] {
		dst[i] = scale * float32(int8(b))
	}
}
