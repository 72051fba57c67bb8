package weights

import (
	"github.com/llmrun/llmrun/exec/altup"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/recurrent"
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
	// Plane is the part of the codes' bits that the matrix has. A matrix in two planes is that of the
	// high one, and Low has the other bits.
	Plane tiled.Plane
	Low   *Matrix
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

// LastPlane returns the matrix whose last rows may be streamed: the low plane of a matrix in two planes, whose
// high plane is in memory.
func (m *Matrix) LastPlane() *Matrix {
	if m.Low != nil {
		return m.Low
	}
	return m
}

// Present reports whether the model has this matrix.
func (m *Matrix) Present() bool { return m.Rows > 0 }

// RowBytes returns the size of a row in the model file, or of the row's plane.
func (m *Matrix) RowBytes() int {
	return m.Cols / m.Type.BlockElems() * m.Plane.BlockBytes(m.Type)
}

// rowBytes is RowBytes of a plane that may be missing.
func (m *Matrix) rowBytes() int {
	if m == nil {
		return 0
	}
	return m.RowBytes()
}

// Linear is a matrix with an optional scale and an optional bias.
type Linear struct {
	Matrix
	Scale     []float32           // [1], multiplies the product; nil: none. See modelfile.TensorSet.Scale
	Bias      []float32           // [Rows]
	PerTensor *PerTensorInput     // per-tensor quantization of the input; nil: none
	Offload   *OffloadedRows      // rows that another device computes; nil: never any
	Beside    []modelfile.LowRank // adapters beside the matrix
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
	Sinks        []float32 // [Heads], see arch.Spec; nil: none
	QNorm, KNorm Gain
	QGate        Linear // what gates attention's output

	Latent Latent

	ConvIn, ConvOut Linear
	Conv            []float32 // [Dim, ConvTaps], oldest tap first
	ConvBias        []float32 // [Dim], or nil
	Recurrent       Recurrent

	MLP    MLP
	Router Linear // [Experts, Dim]
	// RouterBias is added to the scores of experts for the choice alone.
	RouterBias []float32 // [Experts], or nil
	Beside     Beside
	Experts    []MLP
	Shared     MLP
	// PerLayer applies the layer's own embedding of the token; see arch.Spec.PerLayer.
	PerLayer PerLayer
	Scale    []float32 // [1] scales the residual stream behind the layer, or nil
	AltUp    AltUp
	// SharedGate weighs the shared expert by the sigmoid of its one output.
	SharedGate Linear // [1, Dim]
}

// Recurrent are the weights of a mixer with matrices, see arch.Recurrence.
type Recurrent struct {
	In      Linear // [channels, Dim] of the convolution
	Gate    Linear // [inner, Dim]
	Step    Linear // [heads, Dim]
	Value   Linear // [heads, Dim] weights of the values, in delta nets
	Out     Linear // [Dim, inner]
	Vectors recurrent.Weights
}

// Beside are the norms of a layer with a dense MLP beside its experts; see arch.Spec.DenseBeside.
type Beside struct {
	Router                     Gain // of the router's input, which is scaled by 1/√Dim besides
	Experts                    Gain // of the experts' input
	DenseOutput, ExpertsOutput Gain
}

// Latent are the weights of latent attention, see arch.Latent. Q is that of LayerWeights if queries have no
// rank.
type Latent struct {
	QA, QB        Linear // [QRank, Dim], [Heads·(Nope+Rope), QRank]
	KV            Linear // [Rank+Rope, Dim]
	QNorm, KVNorm Gain
	Keys          []Linear // [head] [Rank, Nope]
	Values        []Linear // [head] [Value, Rank]
}

// PerLayer are the weights that apply a layer's own embedding of the token.
type PerLayer struct {
	Model    Linear // [PerLayer, Dim] projects the embedding with which the residual stream begins
	Gate     Linear // [PerLayer, Dim]
	Out      Linear // [Dim, PerLayer]
	PostNorm Gain
}

// AltUp are the weights of a layer with several residual streams and a second residual path, see arch.AltUp.
type AltUp struct {
	altup.Weights
	RouterNorm Gain
	// In makes the other streams before the first layer, and Out joins them behind the last one; other
	// layers have neither.
	In, Out     []Linear // [streams-1] [Dim, Dim]
	Left, Right Linear   // [LaurelRank, Dim], [Dim, LaurelRank]
	LaurelNorm  Gain
}

// Weights are the weights of a model.
type Weights struct {
	Embed  embedding // [Vocab, Dim]
	Norm   Gain
	Head   Linear // [Vocab, Dim]; uses the embedding's bytes in a tied model
	Tied   bool
	Layers []LayerWeights
	// Table has the layers' own embeddings of all tokens, and TableNorm the gain of the projection
	// that is added to them; see arch.Spec.PerLayer.
	Table     embedding // [rows, len(Layers)·PerLayer]
	TableNorm Gain      // [PerLayer]
	Encoder   Encoder
	// Adapters are the names of those beside the matrices; see modelfile.Files.BesideNames.
	Adapters []string
}

// Encoder are what encoders add to the embedding, see arch.Encoder.
type Encoder struct {
	Positions []float32 // [arch.Encoder.Positions, Dim], or nil
	Types     []float32 // [arch.Encoder.TokenTypes, Dim], or nil
	Norm      Gain
}

// NamedLinear is a matrix and its role.
type NamedLinear struct {
	Name   string
	Matrix *Linear
}

// Dense returns the large matrices of a layer that every token uses, in order of use. Some
// may not be Present.
func (w *LayerWeights) Dense() []NamedLinear {
	list := []NamedLinear{
		{"attn_q", &w.Q},
		{"attn_q_gate", &w.QGate},
		{"attn_k", &w.K},
		{"attn_v", &w.V},
		{"attn_output", &w.O},
		{"conv_in", &w.ConvIn},
		{"conv_out", &w.ConvOut},
		{"ssm_qkv", &w.Recurrent.In},
		{"ssm_gate", &w.Recurrent.Gate},
		{"ssm_step", &w.Recurrent.Step},
		{"ssm_value", &w.Recurrent.Value},
		{"ssm_out", &w.Recurrent.Out},
		{"ffn_gate", &w.MLP.Gate},
		{"ffn_up", &w.MLP.Up},
		{"ffn_down", &w.MLP.Down},
		{"ffn_shared_gate", &w.Shared.Gate},
		{"ffn_shared_up", &w.Shared.Up},
		{"ffn_shared_down", &w.Shared.Down},
		{"per_layer_model_proj", &w.PerLayer.Model},
		{"inp_gate", &w.PerLayer.Gate},
		{"proj", &w.PerLayer.Out},
	}
	appendTo := func(role string, m *Linear) { list = append(list, NamedLinear{role, m}) }
	w.EachLatent(appendTo)
	w.EachStream(appendTo)
	return list
}

// EachLatent calls do with every matrix of latent attention, in order of use.
func (w *LayerWeights) EachLatent(do func(role string, w *Linear)) {
	l := &w.Latent
	do("attn_q_a", &l.QA)
	do("attn_kv_a_mqa", &l.KV)
	do("attn_q_b", &l.QB)
	for h := range l.Keys {
		do(modelfile.ExpertRole("attn_k_b", h), &l.Keys[h])
	}
	for h := range l.Values {
		do(modelfile.ExpertRole("attn_v_b", h), &l.Values[h])
	}
}

// Each calls do with every matrix of a layer that a Mix may quantize.
func (w *LayerWeights) Each(do func(role string, w *Linear)) {
	for role, l := range map[string]*Linear{
		"attn_q": &w.Q, "attn_q_gate": &w.QGate, "attn_k": &w.K, "attn_v": &w.V, "attn_output": &w.O,
		"shortconv.in_proj": &w.ConvIn, "shortconv.out_proj": &w.ConvOut,
		"ssm_qkv": &w.Recurrent.In, "ssm_gate": &w.Recurrent.Gate, "ssm_step": &w.Recurrent.Step,
		"ssm_value": &w.Recurrent.Value, "ssm_out": &w.Recurrent.Out,
		"ffn_gate": &w.MLP.Gate, "ffn_up": &w.MLP.Up, "ffn_down": &w.MLP.Down,
		"ffn_gate_shexp": &w.Shared.Gate, "ffn_up_shexp": &w.Shared.Up, "ffn_down_shexp": &w.Shared.Down,
		"per_layer_model_proj": &w.PerLayer.Model, "inp_gate": &w.PerLayer.Gate, "proj": &w.PerLayer.Out,
	} {
		do(role, l)
	}
	w.EachLatent(do)
	w.EachStream(do)
	for i := range w.Experts {
		e := &w.Experts[i]
		do(modelfile.ExpertRole("ffn_gate", i), &e.Gate)
		do(modelfile.ExpertRole("ffn_up", i), &e.Up)
		do(modelfile.ExpertRole("ffn_down", i), &e.Down)
	}
}

// IndexesRows reports whether an expert's matmuls gather their input rows by index.
func (e *MLP) IndexesRows() bool { return e.Gate.Tiled && e.Up.Tiled }
