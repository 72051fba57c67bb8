package schedule

import (
	"cmp"
	"slices"
)

// Graph is one static graph of a layer.
type Graph struct {
	Name    string
	Weights int64 // bytes
	// Buffers is what its inputs and outputs take for a chunk, with so many tokens
	// before it.
	Buffers func(before int) int64
	// PerChunk says that its shape depends on the tokens before the chunk, so that
	// chunks cannot share it: attention.
	PerChunk bool
	// Work is its share of the arithmetic, in any unit.
	Work float64
}

// Graphs is what a prompt needs.
type Graphs struct {
	Count, Shared int   // graphs, and how many of a chunk's all chunks use
	Bytes         int64 // of weights and buffers
}

// CountGraphs adds up the graphs of all layers for a prompt in chunks, with
// those that can be shared built once, or all built for each chunk.
func CountGraphs(layer []Graph, layers, chunks, chunk int, share bool) (g Graphs) {
	for _, graph := range layer {
		copies := chunks
		if share && !graph.PerChunk {
			copies = 1
			g.Shared += layers
		}
		g.Count += copies * layers
		for i := range copies {
			g.Bytes += int64(layers) * (graph.Weights + graph.Buffers(i*chunk))
		}
	}
	return g
}

// Place returns which graphs of all layers a device with so much address space
// gets: those with most work for their bytes first, whole layers' worth of each
// as far as it fits. The result says for each graph of a layer in how many
// of the layers the device has it.
func Place(layer []Graph, layers int, limit int64) []int {
	order := make([]int, len(layer))
	for i := range order {
		order[i] = i
	}
	bytes := func(g Graph) int64 { return g.Weights + g.Buffers(0) }
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(layer[b].Work/float64(bytes(layer[b])), layer[a].Work/float64(bytes(layer[a])))
	})
	count := make([]int, len(layer))
	for _, i := range order {
		size := max(1, bytes(layer[i]))
		count[i] = int(min(int64(layers), max(0, limit)/size))
		limit -= int64(count[i]) * size
	}
	return count
}
