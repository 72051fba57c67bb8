package graph

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// randomOp returns a matmul with weights of one format.
func randomOp(t *testing.T, typ quant.Type, rows, cols int) (op hetero.Op, weights []float32) {
	rng := rand.New(rand.NewPCG(uint64(typ), 7))
	rowBytes, err := typ.RowBytes(cols)
	require.NoError(t, err)
	op = hetero.Op{Tokens: 3, Rows: rows, Cols: cols, Type: typ, Weights: make([]byte, rows*rowBytes)}
	weights = make([]float32, rows*cols)
	for r := range rows {
		row := weights[r*cols:][:cols]
		for i := range row {
			row[i] = float32(rng.NormFloat64())
		}
		to := op.Weights[r*rowBytes:][:rowBytes]
		require.NoError(t, quant.QuantizeRow(typ, to, row, nil))
		quant.DequantRow(typ, row, to)
	}
	return op, weights
}

// pack packs weights; at the end of the test it frees them and checks the ledger.
func pack(t *testing.T, op hetero.Op, p Precision) *Weights {
	budget := tiering.New(0)
	w, err := Pack(budget, op, p)
	require.NoError(t, err)
	size, err := Size(op, p)
	require.NoError(t, err)
	require.Equal(t, size, w.Bytes(), "the prediction")
	t.Cleanup(func() { w.Free(); require.NoError(t, budget.Check()) })
	return w
}

// TestBlocksAreLossless checks that weights of 4 and 8 bits with a scale for each
// block keep every bit.
func TestBlocksAreLossless(t *testing.T) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		op, weights := randomOp(t, typ, 5, 96)
		w := pack(t, op, WeightOnly)
		require.Zero(t, w.QuantError)
		codes, scales := w.Tensors[0].Data, w.Tensors[1].Data
		for i, want := range weights {
			var code int
			if w.bits == 4 {
				code = int(codes[i/2]>>(4*(i%2))&0xf) - 8
			} else {
				code = int(codes[i]) - 128
			}
			scale := math.Float32frombits(binary.LittleEndian.Uint32(scales[i/32*4:]))
			require.Equal(t, want, scale*float32(code), "%v, weight %d", typ, i)
		}
	}
}

// TestPerTensorErrorIsAsStated checks that with one scale per tensor the error of a
// weight is at most half a step, and that the stated error is that of the worst row.
func TestPerTensorErrorIsAsStated(t *testing.T) {
	for _, typ := range []quant.Type{quant.Q4_0, quant.Q8_0} {
		for _, streamed := range []bool{false, true} {
			const rows, cols = 70, 64 // more rows than are packed together
			op, weights := randomOp(t, typ, rows, cols)
			op.Streamed = streamed
			w := pack(t, op, Integer)
			codes, worst := w.Tensors[0].Data, 0.0
			for r := range rows {
				lost, sum := 0.0, 0.0
				for c := range cols {
					code := int(int8(codes[c*rows+r]))
					if streamed {
						code = int(codes[r*cols+c]) - zeroCode
					}
					v := float64(weights[r*cols+c])
					off := math.Abs(v - float64(code)*float64(w.scale))
					require.LessOrEqual(t, off, 0.5001*float64(w.scale))
					lost, sum = lost+off, sum+math.Abs(v)
				}
				worst = max(worst, lost/sum)
			}
			require.InDelta(t, worst, w.QuantError, 1e-12)
			require.Positive(t, worst)
		}
	}
}

// TestRowsKeepTheirScales checks that weights with one scale per row keep every bit,
// including rows of zeros.
func TestRowsKeepTheirScales(t *testing.T) {
	for _, streamed := range []bool{false, true} {
		const rows, cols = 70, 64
		op := rowScaleOp(t, rows, cols)
		op.Streamed = streamed
		w := pack(t, op, Integer)
		require.Zero(t, w.QuantError)
		codes, parts := w.Tensors[0].Data, w.Tensors[1].Data
		want, rowBytes := make([]float32, cols), len(op.Weights)/rows
		for r := range rows {
			quant.DequantRow(op.Type, want, op.Weights[r*rowBytes:][:rowBytes])
			part := math.Float32frombits(binary.LittleEndian.Uint32(parts[4*r:]))
			require.LessOrEqual(t, part, float32(1))
			for c := range cols {
				code := int(int8(codes[c*rows+r]))
				if streamed {
					code = int(codes[r*cols+c]) - zeroCode
				}
				require.InDelta(t, want[c], float32(code)*(w.scale*part), 1e-6*math.Abs(float64(want[c])), "row %d", r)
			}
		}
	}
	alike := rowScaleOp(t, 2, 64)
	copy(alike.Weights[len(alike.Weights)/2:], alike.Weights)
	require.Len(t, pack(t, alike, Integer).Tensors, 1, "equal scales are merged")
}

// rowScaleOp returns a matmul with one scale per row, the first of which is zero.
func rowScaleOp(t *testing.T, rows, cols int) hetero.Op {
	op, weights := randomOp(t, quant.Q8_0, rows, cols)
	clear(weights[:cols])
	rowBytes := len(op.Weights) / rows
	for r := range rows {
		require.NoError(t, quant.QuantizeRowPerRow(op.Weights[r*rowBytes:][:rowBytes], weights[r*cols:][:cols]))
	}
	return op
}

func TestPackRefuses(t *testing.T) {
	good, _ := randomOp(t, quant.Q4_0, 2, 64)
	for want, change := range map[string]func(op *hetero.Op, p *Precision){
		"0 × 2 × 64":           func(op *hetero.Op, _ *Precision) { op.Tokens = 0 },
		"whole number":         func(op *hetero.Op, _ *Precision) { op.Cols = 63 },
		"72 bytes of weights":  func(op *hetero.Op, _ *Precision) { op.Rows = 3 },
		"overflow 32-bit sums": func(op *hetero.Op, _ *Precision) { op.Cols = 1 << 20 },
		"activation scale":     func(op *hetero.Op, _ *Precision) { op.Scale = float32(math.NaN()) },
		"use integer":          func(op *hetero.Op, p *Precision) { op.Type, op.Cols, *p = quant.F32, 9, WeightOnly },
		"NaN or infinite": func(op *hetero.Op, _ *Precision) {
			op.Type, op.Cols = quant.F32, 9
			op.Weights[3], op.Weights[2] = 0x7f, 0xc0
		},
	} {
		op, p, budget := good, Auto, tiering.New(0)
		op.Weights = append([]byte(nil), good.Weights...)
		change(&op, &p)
		_, err := Pack(budget, op, p)
		require.ErrorContains(t, err, want)
		require.NoError(t, budget.Check())
	}
	_, err := ParsePrecision("float")
	require.ErrorContains(t, err, "weight-only")
	p, err := ParsePrecision("integer")
	require.NoError(t, err)
	require.Equal(t, Integer, p)
}

// field is a decoded field of a protocol buffer message.
type field struct {
	number int
	value  uint64
	bytes  []byte
}

// fields decodes a message.
func fields(t *testing.T, m []byte) (list []field) {
	for len(m) > 0 {
		tag, n := binary.Uvarint(m)
		require.Positive(t, n)
		m = m[n:]
		f := field{number: int(tag >> 3)}
		f.value, n = binary.Uvarint(m)
		require.Positive(t, n)
		m = m[n:]
		if tag&7 == wireBytes {
			f.bytes, m = m[:f.value], m[f.value:]
		}
		list = append(list, f)
	}
	return list
}

// all returns the contents of a field, in order.
func all(t *testing.T, m []byte, number int) (list [][]byte) {
	for _, f := range fields(t, m) {
		if f.number == number {
			list = append(list, f.bytes)
		}
	}
	return list
}

// TestGraphs checks that a graph has the operations of its arithmetic and names its
// weights without containing them.
func TestGraphs(t *testing.T) {
	for _, test := range []struct {
		typ       quant.Type
		precision Precision
		scale     float32
		streamed  bool
		want      []string
	}{
		{quant.Q4_0, Auto, 0, false, []string{"MatMulNBits"}},
		{quant.Q8_0, WeightOnly, 0.5, true, []string{"MatMulNBits"}},
		{quant.Q8_0, Auto, 0.5, false, []string{"Clip", "QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul"}},
		{quant.Q8_0, Integer, 0.5, true, []string{"Clip", "QuantizeLinear", "Transpose", "DequantizeLinear", "DequantizeLinear", "MatMul", "Transpose"}},
		{quant.Q4_0, Integer, 0, false, []string{"Abs", "ReduceMax", "Max", "Mul", "Div", "Round", "Add", "Cast", "MatMulInteger", "Cast", "Mul", "Mul"}},
	} {
		op, _ := randomOp(t, test.typ, 128, 256)
		op.Scale, op.Streamed = test.scale, test.streamed
		w := pack(t, op, test.precision)
		file := Matmul(op, w)
		require.Equal(t, file, Matmul(op, w), "the graph is deterministic")
		require.Less(t, len(file), 1000)
		graph := all(t, file, 7)[0]
		var ops []string
		for _, node := range all(t, graph, 1) {
			ops = append(ops, string(all(t, node, 4)[0]))
		}
		require.Equal(t, test.want, ops)
		beside := 0
		for _, tensor := range all(t, graph, 5) {
			if len(all(t, tensor, 13)) > 0 {
				require.Empty(t, all(t, tensor, 9), "an external tensor contains no data")
				require.Equal(t, w.Tensors[beside].Name, string(all(t, tensor, 8)[0]))
				beside++
			}
		}
		require.Len(t, w.Tensors, beside)
	}
}
