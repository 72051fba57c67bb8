package vfs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// submitBatches submits batches of the given sizes and returns the batch of each read.
func (d *batchDetector) submitBatches(sizes ...int) (batches []int) {
	for _, n := range sizes {
		d.beginBatch()
		for range n {
			batches = append(batches, d.submitted())
		}
	}
	return batches
}

func TestBatchDetectorFindsBatching(t *testing.T) {
	d := newBatchDetector(16)
	require.False(t, d.batched(), "no observation yet")
	d.completed(d.submitBatches(1, 3), true)
	require.True(t, d.batched(), "two batches completed together")
	d = newBatchDetector(16)
	d.completed(d.submitBatches(minBatch), true)
	require.True(t, d.batched(), "a large batch completed together")
	for range 20 {
		d.completed(d.submitBatches(minBatch), true)
	}
	for range maxScore {
		batches := d.submitBatches(4)
		d.completed(batches[:1], false)
		d.completed(batches[1:], false)
	}
	require.False(t, d.batched(), "partial batches outweigh a bounded number of earlier observations")
}

func TestBatchDetectorIgnoresWeakEvidence(t *testing.T) {
	d := newBatchDetector(16)
	d.completed(d.submitBatches(1), true)
	d.completed(d.submitBatches(minBatch-1), true)
	require.False(t, d.batched(), "a few reads may complete together by chance")
	d.completed(d.submitBatches(2, 5), false)
	require.False(t, d.batched(), "reads collect if the caller polls late")
	first := d.submitBatches(3)
	second := d.submitBatches(3)
	d.completed(first, false)
	d.completed(second, true)
	require.False(t, d.batched())
	require.Zero(t, d.score)
	d.completed(nil, true)
	require.Zero(t, d.score)
}

// TestBatchDetectorAdapts checks that a few observations change the answer in both
// directions, however many contrary ones came before.
func TestBatchDetectorAdapts(t *testing.T) {
	d := newBatchDetector(8)
	for range 50 {
		batches := d.submitBatches(2)
		d.completed(batches[:1], false)
		d.completed(batches[1:], true)
	}
	require.False(t, d.batched())
	for range maxScore + 1 {
		d.completed(d.submitBatches(8), true)
	}
	require.True(t, d.batched())
	for _, n := range d.inFlight {
		require.Zero(t, n)
	}
}
