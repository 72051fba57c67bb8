package exec

import (
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
	rest streamedRows
}

// streamedRows are the last rows of a matrix, which pass through memory when they
// are used. The zero value stands for none.
type streamedRows struct {
	count int
	run   int   // of the model's stream
	off   int64 // of the first of them in the run
}

// held returns how many rows are in memory: the first ones.
func (m *Matrix) held() int { return m.Rows - m.rest.count }

// unit returns what a matrix can be cut into: tiles, or single rows.
func (m *Matrix) unit() (rows, bytes int) {
	rows = 1
	if m.Tiled {
		rows = tiled.TileRows
	}
	return rows, rows * m.rowBytes()
}

func (m *Matrix) present() bool { return m.Rows > 0 }

// row decodes one row into dst, row i of those that data holds. raw is working
// memory for the bytes of a row.
func (m *Matrix) row(dst []float32 /* [Cols] */, data []byte, i int, raw []byte) {
	n := m.rowBytes()
	stored := raw[:n]
	if m.Tiled {
		tiled.UnpackRow(stored, m.Type, data, m.Cols, i)
	} else {
		stored = data[i*n : (i+1)*n]
	}
	quant.DequantRow(m.Type, dst[:m.Cols], stored)
}

// rowBytes returns the bytes of a row as the model file has it.
func (m *Matrix) rowBytes() int { return m.Cols / m.Type.BlockElems() * m.Type.BlockBytes() }

// linear is a matrix with the bias that is added to its product; bias is nil
// where there is none.
type linear struct {
	Matrix
	bias  []float32   // [Rows]
	whole *wholeInput // how its input is rounded with one scale; nil: it is not
	away  *awayRows   // the rows that another device has; nil: none, ever
}

// gain is the learned part of a norm; the zero gain stands for a norm that the
// layer does not have.
type gain struct {
	weight []float32 // [n]
	bias   []float32 // [n], of LayerNorm
}

// mlp is gate and up (or up alone) and down.
type mlp struct {
	gate, up, down linear
}

// layerWeights are the weights of one layer.
type layerWeights struct {
	attnNorm, postAttnNorm gain
	ffnNorm, postFFNNorm   gain

	q, k, v, o   linear
	qNorm, kNorm gain

	convIn, convOut linear
	conv            []float32 // [Dim, ConvTaps], oldest tap first
	convBias        []float32 // [Dim], or nil

	mlp     mlp
	router  linear // [Experts, Dim]
	experts []mlp
	shared  mlp
	// sharedGate weighs the shared expert: sigmoid of its one output.
	sharedGate linear // [1, Dim]
}

// weights are those of a whole model.
type weights struct {
	embed  embedding // [Vocab, Dim]
	norm   gain
	head   linear // [Vocab, Dim]; shares embed's bytes in a tied model
	tied   bool
	layers []layerWeights
}
