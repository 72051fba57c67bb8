package weights

import (
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/quant/tiled"
)

// RowSplit is the row split of a matmul between the CPU and another device: the device
// computes the rows from a first row on, which is rounded up to whole tiles.
type RowSplit struct {
	// Single is the device's first row for one token, and Batch for a batch; the number of
	// rows means that the device computes none. Rows that the device computes in one case
	// only are in both memories.
	Single, Batch int
	// MinBatch is the smallest number of tokens that counts as a batch. A static device
	// computes whole chunks only and must have no rows for single tokens.
	MinBatch int
	// SingleTime and BatchTime are the predicted times of the matmul, both devices
	// together, for one token and a whole chunk.
	SingleTime, BatchTime time.Duration
}

// RowRanges returns the device's rows of a matmul, as from and to: the rows for one case
// only, then those for both.
func (s RowSplit) RowRanges(rows int) [2][2]int {
	s = s.AlignTiles(rows)
	both := max(s.Single, s.Batch)
	return [2][2]int{{min(s.Single, s.Batch), both}, {both, rows}}
}

// Batched reports whether a number of tokens is a batch.
func (s *RowSplit) Batched(tokens int) bool { return tokens > 1 && tokens >= s.MinBatch }

// FirstRow returns the device's first row for a number of tokens.
func (s *RowSplit) FirstRow(tokens int) int {
	if s.Batched(tokens) {
		return s.Batch
	}
	return s.Single
}

// AlignTiles returns the split in whole tiles of the matrix.
func (s RowSplit) AlignTiles(rows int) RowSplit {
	for _, first := range []*int{&s.Single, &s.Batch} {
		*first = min(rows, (max(0, *first)+tiled.TileRows-1)/tiled.TileRows*tiled.TileRows)
	}
	return s
}

// OffloadedRows are the rows of a matrix that a device computes, in the ranges of
// RowRanges.
type OffloadedRows struct {
	RowSplit
	Matmul *SplitMatmul
	Ranges [2]OffloadedRange
}

// OffloadedRange is a range of rows; an empty range has no kernel.
type OffloadedRange struct {
	First, Rows int
	Kernel      hetero.Kernel
}

// SplitMatmul is the split of one kind of matmul, and the time of the steps that began with
// it. A step is one matmul, or several of the same input, such as queries, keys and values.
type SplitMatmul struct {
	Matmul
	Split RowSplit
	// Single counts steps of one token, and Batch those of at least Split.MinBatch tokens.
	// Steps in between have no prediction and are not counted.
	Single, Batch SplitSteps
}

// Fractions returns the device's fraction of the rows for one token and for a batch.
func (d *SplitMatmul) Fractions() (single, batch float64) {
	part := func(first int) float64 { return 1 - float64(first)/float64(d.Rows) }
	return part(d.Split.Single), part(d.Split.Batch)
}

// SplitSteps sums steps. Predicted and Took are totals; Waited is the part of Took that the
// CPU waited for the device after its own rows. Static devices have no prediction for
// single tokens.
type SplitSteps struct {
	Steps, Tokens           int
	Predicted, Took, Waited time.Duration
}
