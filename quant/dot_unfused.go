package quant

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// This file has the two products that decide the speed of a build without SIMD
// kernels. The lanes are taken in two passes of eight over the row: that many
// partial sums stay in registers. Blocks of a row are pointers to arrays, which
// leaves a single bounds check for each.

// dotUnfused is Dot in the unfused flavour.
func dotUnfused(a, b []float32 /* [n] */) float32 {
	var lane [lanes]float32
	whole := len(a) / lanes * lanes
	lanesF32(&lane, blocksOf(a), blocksOf(b[:len(a)]))
	for i, v := range a[whole:] {
		lane[i] += float32(v * b[whole+i])
	}
	return addLanes(&lane)
}

// gemv multiplies bfloat16 rows without decoding them to memory, if unfused.
func (k portable) gemv(y []float32 /* [rows] */, t Type, w []byte /* [rows, cols] */, rows, cols int, x []float32 /* [cols] */) bool {
	if k.ar == fused || t != BF16 {
		return false
	}
	whole := cols / lanes * lanes
	xBlocks := blocksOf(x)
	for r := range rows {
		row := w[2*r*cols:][:2*cols]
		var lane [lanes]float32
		lanesBF16(&lane, halfBlocksOf(row), xBlocks)
		for i, v := range x[whole:] {
			lane[i] += float32(BF16ToF32(binary.LittleEndian.Uint16(row[2*(whole+i):])) * v)
		}
		y[r] = addLanes(&lane)
	}
	return true
}

// blocksOf returns the whole blocks of sixteen elements in a.
func blocksOf(a []float32) [][lanes]float32 {
	if len(a) < lanes {
		return nil
	}
	return unsafe.Slice((*[lanes]float32)(unsafe.Pointer(&a[0])), len(a)/lanes)
}

// halfBlocksOf does the same for a row of 16-bit numbers.
func halfBlocksOf(row []byte) [][2 * lanes]byte {
	if len(row) < 2*lanes {
		return nil
	}
	return unsafe.Slice((*[2 * lanes]byte)(unsafe.Pointer(&row[0])), len(row)/(2*lanes))
}

// lanesF32 sets lane to the partial sums of two rows of as many blocks.
func lanesF32(lane *[lanes]float32, a, b [][lanes]float32) {
	b = b[:len(a)]
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for i := range a {
		x, y := &a[i], &b[i]
		s0 += float32(x[0] * y[0])
		s1 += float32(x[1] * y[1])
		s2 += float32(x[2] * y[2])
		s3 += float32(x[3] * y[3])
		s4 += float32(x[4] * y[4])
		s5 += float32(x[5] * y[5])
		s6 += float32(x[6] * y[6])
		s7 += float32(x[7] * y[7])
	}
	lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7] = s0, s1, s2, s3, s4, s5, s6, s7
	s0, s1, s2, s3, s4, s5, s6, s7 = 0, 0, 0, 0, 0, 0, 0, 0
	for i := range a {
		x, y := &a[i], &b[i]
		s0 += float32(x[8] * y[8])
		s1 += float32(x[9] * y[9])
		s2 += float32(x[10] * y[10])
		s3 += float32(x[11] * y[11])
		s4 += float32(x[12] * y[12])
		s5 += float32(x[13] * y[13])
		s6 += float32(x[14] * y[14])
		s7 += float32(x[15] * y[15])
	}
	lane[8], lane[9], lane[10], lane[11], lane[12], lane[13], lane[14], lane[15] = s0, s1, s2, s3, s4, s5, s6, s7
}

// lanesBF16 is lanesF32 for a row of bfloat16 numbers. One load brings four.
func lanesBF16(lane *[lanes]float32, a [][2 * lanes]byte, b [][lanes]float32) {
	b = b[:len(a)]
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for i := range a {
		x, y := &a[i], &b[i]
		four := binary.LittleEndian.Uint64(x[0:8])
		s0 += float32(math.Float32frombits(uint32(four)<<16) * y[0])
		s1 += float32(math.Float32frombits(uint32(four)&0xffff0000) * y[1])
		s2 += float32(math.Float32frombits(uint32(four>>32)<<16) * y[2])
		s3 += float32(math.Float32frombits(uint32(four>>32)&0xffff0000) * y[3])
		four = binary.LittleEndian.Uint64(x[8:16])
		s4 += float32(math.Float32frombits(uint32(four)<<16) * y[4])
		s5 += float32(math.Float32frombits(uint32(four)&0xffff0000) * y[5])
		s6 += float32(math.Float32frombits(uint32(four>>32)<<16) * y[6])
		s7 += float32(math.Float32frombits(uint32(four>>32)&0xffff0000) * y[7])
	}
	lane[0], lane[1], lane[2], lane[3], lane[4], lane[5], lane[6], lane[7] = s0, s1, s2, s3, s4, s5, s6, s7
	s0, s1, s2, s3, s4, s5, s6, s7 = 0, 0, 0, 0, 0, 0, 0, 0
	for i := range a {
		x, y := &a[i], &b[i]
		four := binary.LittleEndian.Uint64(x[16:24])
		s0 += float32(math.Float32frombits(uint32(four)<<16) * y[8])
		s1 += float32(math.Float32frombits(uint32(four)&0xffff0000) * y[9])
		s2 += float32(math.Float32frombits(uint32(four>>32)<<16) * y[10])
		s3 += float32(math.Float32frombits(uint32(four>>32)&0xffff0000) * y[11])
		four = binary.LittleEndian.Uint64(x[24:32])
		s4 += float32(math.Float32frombits(uint32(four)<<16) * y[12])
		s5 += float32(math.Float32frombits(uint32(four)&0xffff0000) * y[13])
		s6 += float32(math.Float32frombits(uint32(four>>32)<<16) * y[14])
		s7 += float32(math.Float32frombits(uint32(four>>32)&0xffff0000) * y[15])
	}
	lane[8], lane[9], lane[10], lane[11], lane[12], lane[13], lane[14], lane[15] = s0, s1, s2, s3, s4, s5, s6, s7
}
