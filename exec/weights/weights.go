package weights

import (
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

// Matrix is a weight matrix: rows of Cols elements in a storage format. The zero
// Matrix stands for one that the model does not have.
type Matrix struct {
	Type       quant.Type
	Rows, Cols int
	Data       []byte // [held, RowBytes], or the same in tiles
	// Tiled matrices are multiplied in integers, with rounded activations; the
	// others in float32.
	Tiled bool
	// Order has the input of each column, in matrices whose columns are not in the
	// order of the inputs; nil = they are.
	Order []float32 // [Cols]
	// rest is where the rows come from that are not in memory.
	Streamed streamedRows
}

// streamedRows are the last rows of a matrix, which pass through memory when they
// are used. The zero value stands for none.
type streamedRows struct {
	Count  int
	Run    int   // of the model's stream
	Offset int64 // of the first of them in the run
}

// ResidentRows returns how many rows are in memory: the first ones.
func (m *Matrix) ResidentRows() int { return m.Rows - m.Streamed.Count }

// Unit returns what a matrix can be cut into: tiles, or single rows.
func (m *Matrix) Unit() (rows, bytes int) {
	rows = 1
	if m.Tiled {
		rows = tiled.TileRows
	}
	return rows, rows * m.RowBytes()
}

// Present reports whether the model has this matrix.
func (m *Matrix) Present() bool { return m.Rows > 0 }

// decodeRow decodes one row into dst, row i of those that data holds. raw is working
// memory for the bytes of a row.
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

// RowBytes returns the bytes of a row as the model file has it.
func (m *Matrix) RowBytes() int { return m.Cols / m.Type.BlockElems() * m.Type.BlockBytes() }

// Linear is a matrix with the bias that is added to its product; bias is nil
// where there is none.
type Linear struct {
	Matrix
	Bias      []float32       // [Rows]
	PerTensor *PerTensorInput // how its input is rounded with one scale; nil: it is not
	Offload   *OffloadedRows  // the rows that another device has; nil: none, ever
}

// Gain is the learned part of a norm; the zero gain stands for a norm that the
// layer does not have.
type Gain struct {
	Weight []float32 // [n]
	Bias   []float32 // [n], of LayerNorm
}

// MLP is gate and up (or up alone) and down.
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
	// sharedGate weighs the shared expert: sigmoid of its one output.
	SharedGate Linear // [1, Dim]
}

// Weights are those of a whole model.
type Weights struct {
	Embed  embedding // [Vocab, Dim]
	Norm   Gain
	Head   Linear // [Vocab, Dim]; shares embed's bytes in a tied model
	Tied   bool
	Layers []LayerWeights
}

// NamedLinear is a matrix and its role.
type NamedLinear struct {
	Name   string
	Matrix *Linear
}

// Dense returns the matrices of a layer that all tokens are multiplied with and that
// are not small, in the order of their use. Those that the layer does not have are
// not present.
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

// Each calls do with every matrix of a layer that a mix may quantize.
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

// IndexesRows reports whether an expert's products find their rows by index.
func (e *MLP) IndexesRows() bool { return e.Gate.Tiled && e.Up.Tiled }
