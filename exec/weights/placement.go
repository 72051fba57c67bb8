package weights

import (
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant/tiled"
)

// Placement is the place of one tensor in a frame.
type Placement struct {
	name   string // GGUF name; fused tensors are split
	Slice  modelfile.TensorSlice
	off    int
	tile   bool         // rows are stored in tiles
	plane  tiled.Plane  // of the tiles
	Matrix *Matrix      // receives the tensor; nil: Vector does
	rest   streamedRows // the rows of the matrix that are streamed
	// offloaded is how many rows of the matrix, behind those of Slice, only another device has.
	offloaded int
	Vector    *[]float32 // receives the elements as float32
}

// Bytes returns the size of the placement in its frame.
func (p *Placement) Bytes() int {
	switch {
	case p.Vector != nil:
		return 4 * p.Slice.Cols * p.Slice.Rows
	case p.Slice.Rows == 0:
		return 0
	case p.tile:
		rows := (p.Slice.Rows + tiled.TileRows - 1) / tiled.TileRows * tiled.TileRows
		return rows * p.Slice.Cols / p.Slice.Type.BlockElems() * p.plane.BlockBytes(p.Slice.Type)
	}
	return int(p.Slice.Bytes())
}

// matrixOver returns the placement's matrix over data, which contains its first rows or all
// rows.
func (p *Placement) matrixOver(data []byte) Matrix {
	m := p.outline()
	m.Data, m.Order = data, p.Matrix.Order
	rows, bytes := m.Unit()
	m.Streamed.Count = m.Rows - min(p.Slice.Rows, len(data)/bytes*rows)
	return m
}

// unit returns the smallest divisible unit of the placement's matrix.
func (p *Placement) unit() (rows, bytes int) {
	m := p.outline()
	return m.Unit()
}

// outline returns the placement's matrix without data.
func (p *Placement) outline() Matrix {
	m := Matrix{Type: p.Slice.Type, Rows: p.Slice.Rows + p.offloaded, Cols: p.Slice.Cols, Tiled: p.tile, Plane: p.plane}
	if p.Matrix != nil {
		m.Low = p.Matrix.Low
	}
	return m
}
