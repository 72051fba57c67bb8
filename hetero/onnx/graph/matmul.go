package graph

import (
	"encoding/binary"
	"math"

	"github.com/llmrun/llmrun/hetero"
)

// Names of the operands, for bindings.
const (
	InputName  = "x" // [tokens, cols]
	OutputName = "y" // [tokens, rows]
)

// Names of the external weights.
const (
	codesName     = "codes"
	scalesName    = "scales"
	rowScalesName = "row_parts" // relative to the largest, see Weights.rowScales
)

// Matmul writes the graph of a matmul with packed weights, for exactly op.Tokens
// tokens: y = x · weightsᵀ.
func Matmul(op hetero.Op, w *Weights) []byte {
	m := &model{
		input:   Tensor{Name: InputName, Element: Float, Dims: []int64{int64(op.Tokens), int64(op.Cols)}},
		output:  Tensor{Name: OutputName, Element: Float, Dims: []int64{int64(op.Tokens), int64(op.Rows)}},
		weights: w.Tensors,
	}
	if w.Precision == WeightOnly {
		m.node(domainContrib, "MatMulNBits", OutputName, []string{InputName, codesName, scalesName},
			attribute{name: "K", value: int64(op.Cols)}, attribute{name: "N", value: int64(op.Rows)},
			attribute{name: "bits", value: int64(w.bits)}, attribute{name: "block_size", value: blockCols})
		return m.bytes()
	}
	m.constant(Tensor{Name: leftZero, Element: Uint8, Data: []byte{zeroCode}})
	result := OutputName
	if w.rowScales {
		result = "y_whole"
	}
	if op.Scale > 0 {
		m.fixedScale(op, w, result)
	} else {
		m.scalePerToken(op, w, result)
	}
	if w.rowScales {
		m.op("Mul", OutputName, result, rowScalesName)
	}
	return m.bytes()
}

// zeroCode is the zero point of the left operand in integer matmuls. Left codes are
// unsigned, because CPUs without matrix units multiply unsigned by signed codes.
const (
	zeroCode = 128
	leftZero = "left_zero" // the constant
)

// fixedScale quantizes all activations with one scale that is known in advance. The
// matmul is written in quantize-dequantize form, which NPU compilers and the CPU
// provider recognize as an integer matmul. The smallest code is one step
// further from zero than the largest; Clip makes the range symmetric, as the outlier
// path assumes.
func (m *model) fixedScale(op hetero.Op, w *Weights, result string) {
	right := m.constant(Tensor{Name: "right_zero", Element: Int8, Data: []byte{0}})
	m.number("x_scale", op.Scale)
	m.number("w_scale", w.scale)
	m.op("Clip", "x_clipped", InputName, m.number("least", -127*op.Scale), m.number("most", 127*op.Scale))
	if op.Streamed {
		m.op("QuantizeLinear", "x_codes", "x_clipped", "x_scale", right)
		m.op("Transpose", "x_turned", "x_codes")
		m.op("DequantizeLinear", "x_steps", "x_turned", "x_scale", right)
		m.op("DequantizeLinear", "w_steps", codesName, "w_scale", leftZero)
		m.op("MatMul", "y_turned", "w_steps", "x_steps")
		m.op("Transpose", result, "y_turned")
		return
	}
	m.op("QuantizeLinear", "x_codes", "x_clipped", "x_scale", leftZero)
	m.op("DequantizeLinear", "x_steps", "x_codes", "x_scale", leftZero)
	m.op("DequantizeLinear", "w_steps", codesName, "w_scale", right)
	m.op("MatMul", result, "x_steps", "w_steps")
}

// minLargest keeps the scale of an all-zero token above zero.
const minLargest = 1e-35

// scalePerToken quantizes each token with the scale of its largest element.
func (m *model) scalePerToken(op hetero.Op, w *Weights, result string) {
	m.op("Abs", "x_abs", InputName)
	m.node("", "ReduceMax", "x_max", []string{"x_abs"}, attribute{name: "axes", list: []int64{1}}, attribute{name: "keepdims", value: 1})
	m.op("Max", "x_most", "x_max", m.number("least", minLargest))
	m.op("Mul", "x_scale", "x_most", m.number("step", 1./127))
	m.op("Div", "x_steps", InputName, "x_scale")
	m.op("Round", "x_whole", "x_steps")
	if op.Streamed {
		m.cast(Int8, "x_codes", "x_whole")
	} else {
		m.op("Add", "x_counted", "x_whole", m.number("x_zero", zeroCode))
		m.cast(Uint8, "x_codes", "x_counted")
	}
	m.sums(op)
	m.op("Mul", "y_steps", "sums", m.number("w_scale", w.scale))
	m.op("Mul", result, "y_steps", "x_scale")
}

// sums multiplies the codes exactly: [tokens, rows]. Streamed weights are the left
// operand, [rows, cols]·[cols, tokens].
func (m *model) sums(op hetero.Op) {
	if op.Streamed {
		m.op("Transpose", "x_turned", "x_codes")
		m.op("MatMulInteger", "whole_turned", codesName, "x_turned", leftZero)
		m.op("Transpose", "whole", "whole_turned")
	} else {
		m.op("MatMulInteger", "whole", "x_codes", codesName, leftZero)
	}
	m.cast(Float, "sums", "whole")
}

func floatBytes(v float32) []byte {
	return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
}
