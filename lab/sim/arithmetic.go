package sim

import (
	"fmt"
	"math"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
)

// weights are the weights of a matmul in the precision of the device.
type weights struct {
	rows []float32 // [rows, cols]
}

func newWeights(op hetero.Op, kind hetero.Kind) (*weights, error) {
	rowBytes, err := op.Type.RowBytes(op.Cols)
	if err != nil {
		return nil, err
	}
	if len(op.Weights) != op.Rows*rowBytes {
		return nil, fmt.Errorf("sim: %d bytes of weights for %d rows of %d", len(op.Weights), op.Rows, rowBytes)
	}
	w := &weights{rows: make([]float32, op.Rows*op.Cols)}
	for r := range op.Rows {
		quant.DequantRow(op.Type, w.rows[r*op.Cols:][:op.Cols], op.Weights[r*rowBytes:][:rowBytes])
	}
	if kind == hetero.NPU && op.Tokens > 1 {
		for i, v := range w.rows {
			w.rows[i] = half(v)
		}
	}
	return w, nil
}

// multiply computes the matmul with the arithmetic and the order of the device. The CPU sums in
// float32 from the first column to the last. The GPU sums in lanes. The NPU rounds operands to half
// precision and sums tile by tile; for one token it multiplies integers.
func (w *weights) multiply(op hetero.Op, kind hetero.Kind, x, y hetero.View) {
	in := make([]float32, op.Cols)
	for t := range op.Tokens {
		scale := float32(1)
		copy(in, x.Row(t, op.Cols))
		if kind == hetero.NPU {
			scale = quantize(in, op.Tokens == 1)
		}
		out := y.Row(t, op.Rows)
		for r := range out {
			out[r] = scale * dot(w.rows[r*op.Cols:][:op.Cols], in, lanes[kind])
		}
	}
}

// lanes is the number of partial sums of each device.
var lanes = [...]int{hetero.CPU: 1, hetero.GPU: 16, hetero.NPU: 32}

// dot adds element i to partial sum i%lanes. Tests spend much of their time here, so eight sums are in registers.
func dot(a, b []float32, lanes int) float32 {
	var sums [32]float32
	b = b[:len(a)]
	whole := 0
	if lanes%8 == 0 {
		whole = len(a) / lanes * lanes
		for lane := 0; lane < lanes; lane += 8 {
			s := (*[8]float32)(sums[lane:])
			s0, s1, s2, s3, s4, s5, s6, s7 := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]
			for i := lane; i < whole; i += lanes {
				v, w := (*[8]float32)(a[i:]), (*[8]float32)(b[i:])
				s0 += v[0] * w[0]
				s1 += v[1] * w[1]
				s2 += v[2] * w[2]
				s3 += v[3] * w[3]
				s4 += v[4] * w[4]
				s5 += v[5] * w[5]
				s6 += v[6] * w[6]
				s7 += v[7] * w[7]
			}
			*s = [8]float32{s0, s1, s2, s3, s4, s5, s6, s7}
		}
	}
	for i := whole; i < len(a); i++ {
		sums[i%lanes] += a[i] * b[i]
	}
	sum := float32(0)
	for _, s := range sums[:lanes] {
		sum += s
	}
	return sum
}

// quantize rounds x to the numbers that the NPU multiplies and returns their scale.
func quantize(x []float32, integers bool) float32 {
	if !integers {
		for i, v := range x {
			x[i] = half(v)
		}
		return 1
	}
	largest := float32(0)
	for _, v := range x {
		largest = max(largest, float32(math.Abs(float64(v))))
	}
	if largest == 0 {
		return 1
	}
	scale := largest / 127
	for i, v := range x {
		x[i] = float32(math.RoundToEven(float64(v / scale)))
	}
	return scale
}

func half(v float32) float32 { return quant.F16ToF32(quant.F32ToF16(v)) }

// tolerance bounds the rounding error of a matmul; see hetero.Kernel.
func tolerance(kind hetero.Kind, op hetero.Op) float64 {
	sums := float64(op.Cols+2) * 0x1p-24
	switch {
	case kind != hetero.NPU:
		return sums
	case op.Tokens == 1:
		return sums + 0.5/127
	}
	return sums + 0x1p-10 + 0x1p-22 // both operands rounded to 11 bits
}
