package weights

import (
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// Matrix is a weight matrix: rows of Cols elements in a storage format. The zero Matrix
// means that the model has no such matrix.
type Matrix struct {
	Type       quant.Type
	Rows, Cols int
	Data       []byte // [ResidentRows, RowBytes], or the same rows in tiles
	// Tiled matrices are multiplied in integers, with quantized activations; others in
	// float32.
	Tiled bool
	// Order is the index of each column's input element; nil: the natural order.
	Order []float32 // [Cols]
	// Streamed locates the rows that are not in memory.
	Streamed streamedRows
}

// streamedRows are the last rows of a matrix, which are streamed for each use. The zero
// value means none.
type streamedRows struct {
	Count  int
	Run    int   // of the model's stream
	Offset int64 // of the first streamed row in the run
}

// ResidentRows returns how many rows, the first ones, are in memory.
func (m *Matrix) ResidentRows() int { return m.Rows - m.Streamed.Count }

// Unit returns the smallest divisible unit of a matrix: a tile, or a row.
func (m *Matrix) Unit() (rows, bytes int) {
	rows = 1
	if m.Tiled {
		rows = tiled.TileRows
	}
	return rows, rows * m.RowBytes()
}

// Present reports whether the model has this matrix.
func (m *Matrix) Present() bool { return m.Rows > 0 }

// decodeRow decodes row i of data into dst. raw is a buffer for one stored row.
func (m *Matrix) decodeRow(dst []float32 /* [Cols] */, data []byte, i int, raw []byte) {
	n := m.RowBytes()
	stored := raw[:n]
	if m.Tiled {
		tiled.UnpackRow(stored, m.Type, data, m.Cols, i)
	} else {
		stored = data[i*n : (i+1)*n]
	}
	quant.DequantRow(m.Type, dst[:m.Cols], stored)
}

// RowBytes returns the size of a row in the model file.
func (m *Matrix) RowBytes() int { return m.Cols / m.Type.BlockElems() * m.Type.BlockBytes() }

// Linear is a matrix with an optional bias.
type Linear struct {
	Matrix
	Bias      []float32       // [Rows]
	PerTensor *PerTensorInput // per-tensor quantization of the input; nil: none
	Offload   *OffloadedRows  // rows that another device computes; nil: never any
}

// Gain is the learned part of a norm; the zero Gain means that the layer has no such norm.
type Gain struct {
	Weight []float32 // [n]
	Bias   []float32 // [n], of LayerNorm
}

// MLP is gate, up and down; an ungated one has no gate.
type MLP struct {
	Gate, Up, Down Linear
}

// LayerWeights are the weights of one layer.
type LayerWeights struct {
	AttnNorm, PostAttnNorm Gain
	FFNNorm, PostFFNNorm   Gain

	Q, K, V, O   Linear
	QNorm, KNorm Gain

	ConvIn, ConvOut Linear
	Conv            []float32 // [Dim, ConvTaps], oldest tap first
	ConvBias        []float32 // [Dim], or nil

	MLP     MLP
	Router  Linear // [Experts, Dim]
	Experts []MLP
	Shared  MLP
	// SharedGate weighs the shared expert by the sigmoid of its one output.
	SharedGate Linear // [1, Dim]
}

// Weights are the weights of a model.
type Weights struct {
	Embed  embedding // [Vocab, Dim]
	Norm   Gain
	Head   Linear // [Vocab, Dim]; uses the embedding's bytes in a tied model
	Tied   bool
	Layers []LayerWeights
}

// NamedLinear is a matrix and its role.
type NamedLinear struct {
	Name   string
	Matrix *Linear
}

// Dense returns the large matrices of a layer that every token uses, in order of use. Some
// may not be Present.
func (w *LayerWeights) Dense() []NamedLinear {
	return []NamedLinear{
		{"attn_q", &w.Q},
		{"attn_k", &w.K},
		{"attn_v", &w.V},
		{"attn_output", &w.O},
		{"conv_in", &w.ConvIn},
		{"conv_out", &w.ConvOut},
		{"ffn_gate", &w.MLP.Gate},
		{"ffn_up", &w.MLP.Up},
		{"ffn_down", &w.MLP.Down},
		{"ffn_shared_gate", &w.Shared.Gate},
		{"ffn_shared_up", &w.Shared.Up},
		{"ffn_shared_down", &w.Shared.Down},
	}
}

// Each calls do with every matrix of a layer that a Mix may quantize.
func (w *LayerWeights) Each(do func(role string, w *Linear)) {
	for role, l := range map[string]*Linear{
		"attn_q": &w.Q, "attn_k": &w.K, "attn_v": &w.V, "attn_output": &w.O,
		"shortconv.in_proj": &w.ConvIn, "shortconv.out_proj": &w.ConvOut,
		"ffn_gate": &w.MLP.Gate, "ffn_up": &w.MLP.Up, "ffn_down": &w.MLP.Down,
		"ffn_gate_shexp": &w.Shared.Gate, "ffn_up_shexp": &w.Shared.Up, "ffn_down_shexp": &w.Shared.Down,
	} {
		do(role, l)
	}
	for i := range w.Experts {
		e := &w.Experts[i]
		do(modelfile.ExpertRole("ffn_gate", i), &e.Gate)
		do(modelfile.ExpertRole("ffn_up", i), &e.Up)
		do(modelfile.ExpertRole("ffn_down", i), &e.Down)
	}
}

// IndexesRows reports whether an expert's matmuls gather their input rows by index.
func (e *MLP) IndexesRows() bool { return e.Gate.Tiled && e.Up.Tiled }
