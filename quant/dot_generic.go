package quant

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// lanes is the number of partial sums of every reduction.
const lanes = 16

// addLanes adds the partial sums in the order of the contract's tree.
func addLanes(lane *[lanes]float32) float32 {
	for width := lanes / 2; width > 0; width /= 2 {
		for i := range width {
			lane[i] += lane[i+width]
		}
	}
	return lane[0]
}

func (k portable) dot(a, b []float32 /* [n] */) float32 {
	if k.ar == fused {
		return dotFused(a, b)
	}
	return dotUnfused(a, b)
}

// dotFused is the definition of Dot, the oracle of the SIMD kernels.
func dotFused(a, b []float32 /* [n] */) float32 {
	var lane [lanes]float32
	for i := range a {
		lane[i%lanes] = fma32(a[i], b[i], lane[i%lanes])
	}
	return addLanes(&lane)
}

func (k portable) mulF32(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int) {
	for r := range rows {
		row := w[r*wStride:][:cols]
		for b := range n {
			y[b*yStride+r] = k.dot(row, x[b*xStride:][:cols])
		}
	}
}

func (k portable) weightedSum(o []float32, oStride int, p []float32, pStride int, v []float32, vStride, tokens, d, n int) {
	for i := range n {
		out := o[i*oStride:][:d]
		for j, weight := range p[i*pStride:][:tokens] {
			value := v[j*vStride:][:d]
			if k.ar == fused {
				for c, x := range value {
					out[c] = fma32(weight, x, out[c])
				}
				continue
			}
			for c, x := range value {
				out[c] += float32(weight * x)
			}
		}
	}
}

// This file has the two products that decide the speed of a build without SIMD
// kernels. The lanes are taken in two passes of eight over the row: that many
// partial sums stay in registers. Blocks of a row are pointers to arrays, which
// leaves a single bounds check for each.

// dotUnfused is Dot in the unfused flavour.
func dotUnfused(a, b []float32 /* [n] */) float32 {
	var lane [lanes]float32
	whole := len(a) / lanes * lanes
	x, y := blocksOf(a), blocksOf(b[:len(a)])
	for half := range 2 {
		halfF32((*[lanes / 2]float32)(lane[half*lanes/2:]), x, y, uint(half))
	}
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
		rowBlocks := halfBlocksOf(row)
		for half := range 2 {
			halfBF16((*[lanes / 2]float32)(lane[half*lanes/2:]), rowBlocks, xBlocks, uint(half))
		}
		for i, v := range x[whole:] {
			lane[i] += float32(BF16ToF32(binary.LittleEndian.Uint16(row[2*(whole+i):])) * v)
		}
		y[r] = addLanes(&lane)
	}
	return true
}

// halves are half blocks of eight elements in 32 bits, halfBytes in 16 bits.
type (
	halves    = [][lanes / 2]float32
	halfBytes = [][lanes]byte
)

// blocksOf returns the halves of the whole blocks of sixteen elements in a.
func blocksOf(a []float32) halves {
	if len(a) < lanes {
		return nil
	}
	return unsafe.Slice((*[lanes / 2]float32)(unsafe.Pointer(&a[0])), len(a)/lanes*2)
}

// halfBlocksOf does the same for a row of 16-bit numbers.
func halfBlocksOf(row []byte) halfBytes {
	if len(row) < 2*lanes {
		return nil
	}
	return unsafe.Slice((*[lanes]byte)(unsafe.Pointer(&row[0])), len(row)/(2*lanes)*2)
}

// halfF32 sets lane to the partial sums of one half of every block of two rows: the
// first or the second.
func halfF32(lane *[lanes / 2]float32, a, b halves, first uint) {
	b = b[:len(a)]
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for i := first; i < uint(len(a)); i += 2 {
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
	*lane = [...]float32{s0, s1, s2, s3, s4, s5, s6, s7}
}

// halfBF16 is halfF32 for a row of bfloat16 numbers. One load brings four.
func halfBF16(lane *[lanes / 2]float32, a halfBytes, b halves, first uint) {
	b = b[:len(a)]
	var s0, s1, s2, s3, s4, s5, s6, s7 float32
	for i := first; i < uint(len(a)); i += 2 {
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
	*lane = [...]float32{s0, s1, s2, s3, s4, s5, s6, s7}
}
