package weights

import (
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant/tiled"
)

// RowSplit says which rows of a matrix another device multiplies: from a row on, which
// is rounded up to whole tiles.
type RowSplit struct {
	// Single is the first row of the device where one token is multiplied, and Many where
	// many are: with all rows of the matrix before it the device has none. Rows that
	// it has in one case only are in both memories.
	Single, Batch int
	// MinBatch is how few tokens are many; fewer are multiplied like one. A device that
	// is static computes a whole chunk each time, and must have nothing of one.
	MinBatch int
	// SingleTime and BatchTime are what the product of one token and of a whole chunk is
	// predicted to take, of the two devices together.
	SingleTime, BatchTime time.Duration
}

// RowRanges returns which rows of so many the device has, from and to: those of both
// cases, and before them those of one.
func (s RowSplit) RowRanges(rows int) [2][2]int {
	s = s.AlignTiles(rows)
	both := max(s.Single, s.Batch)
	return [2][2]int{{min(s.Single, s.Batch), both}, {both, rows}}
}

// Batched reports whether so many tokens are many.
func (s *RowSplit) Batched(tokens int) bool { return tokens > 1 && tokens >= s.MinBatch }

// FirstRow returns the first row of the device where so many tokens are multiplied.
func (s *RowSplit) FirstRow(tokens int) int {
	if s.Batched(tokens) {
		return s.Batch
	}
	return s.Single
}

// AlignTiles returns the share in whole tiles of the matrix.
func (s RowSplit) AlignTiles(rows int) RowSplit {
	for _, first := range []*int{&s.Single, &s.Batch} {
		*first = min(rows, (max(0, *first)+tiled.TileRows-1)/tiled.TileRows*tiled.TileRows)
	}
	return s
}

// OffloadedRows are the rows of a matrix that a device has: those that it multiplies in
// both cases, and before them those for one case only.
type OffloadedRows struct {
	RowSplit
	Matmul *SplitMatmul
	Ranges [2]OffloadedRange
}

// OffloadedRange is rows that follow each other; no rows have no kernel.
type OffloadedRange struct {
	First, Rows int
	Kernel      hetero.Kernel
}

// SplitMatmul says how matrices of one kind are divided, and how long steps took
// whose first product they are: one matrix, or several that multiply the same
// vectors, such as queries, keys and values.
type SplitMatmul struct {
	Matmul
	Split RowSplit
	// Of one token, and of at least Share.Least. What fewer take has nobody predicted:
	// they are left out.
	Single, Batch SplitSteps
}

// Fractions returns which part of the rows the device has, of one token and of many.
func (d *SplitMatmul) Fractions() (one, many float64) {
	part := func(first int) float64 { return 1 - float64(first)/float64(d.Rows) }
	return part(d.Split.Single), part(d.Split.Batch)
}

// SplitSteps counts steps. Predicted and Took are sums over all of them; Waited is
// how much of that was waiting for the device after the own rows were done. Nothing is
// predicted of single tokens where the device is static.
type SplitSteps struct {
	Steps, Tokens           int
	Predicted, Took, Waited time.Duration
}
