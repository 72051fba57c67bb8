package gpupass

import (
	"os"

	"github.com/llmrun/llmrun/exec"
)

// The ledger of the host counts the device's buffers if both share the memory, and otherwise the
// buffers for copies. It does not count what the driver allocates for itself.

// hostMemory is the host's memory that the network takes.
type hostMemory struct {
	buffers int64 // without KV
	token   int64 // bound of the KV of a token
	upload  int64 // while a matrix is copied to the device
}

const (
	// buffersPerLayer and otherBuffers bound the number of buffers, each of which begins at a page.
	buffersPerLayer, otherBuffers = 12, 32
	// grownKV bounds the ratio of a growing sequence's buffers, the old and the new ones, to its
	// tokens if the context is known, and grownUnknown if sessions may end earlier.
	grownKV, grownUnknown = 2, 3
)

// hostMemory returns the host's memory for the layers from first on.
func (n *Network) hostMemory(f *memoryPlan, first int, o *exec.Offer) (h hostMemory) {
	if !n.context.SharesMemory {
		copies := 2 * 4 * (len(n.single.input) + len(n.single.result)) // of launches, and of recordings
		batch := n.batchFloats(o.Chunk, 0)
		return hostMemory{buffers: int64(copies + 4*batch[0] + otherBuffers*os.Getpagesize()), upload: f.maxWeights(first)}
	}
	h.buffers, _ = f.total(first, 0)
	grown := int64(grownKV)
	if o.Context == 0 {
		grown = grownUnknown
	}
	for _, l := range f.layers[first:] {
		h.token += grown * l.token
		h.buffers += grown*firstTokens*l.token + int64(buffersPerLayer*os.Getpagesize())
	}
	h.buffers += int64(otherBuffers * os.Getpagesize())
	return h
}

// maxWeights returns the largest buffer of the weights from a layer on.
func (f *memoryPlan) maxWeights(first int) int64 {
	most := f.maxPiece
	for _, l := range f.layers[first:] {
		most = max(most, l.maxPiece)
	}
	return most
}
