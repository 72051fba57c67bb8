package schedule

import (
	"cmp"
	"slices"
)

// Graph is one static graph of a layer.
type Graph struct {
	Name    string
	Weights int64 // bytes
	// Buffers returns the bytes of inputs and outputs for a chunk after a number of tokens.
	Buffers func(before int) int64
	// PerChunk reports that the shape depends on the tokens before the chunk, so that chunks cannot
	// share the graph: attention.
	PerChunk bool
	// Work is the amount of arithmetic, in any unit.
	Work float64
}

// Graphs counts the graphs of a prompt.
type Graphs struct {
	Count, Shared int   // all graphs; graphs of a chunk that all chunks share
	Bytes         int64 // of weights and buffers
}

// CountGraphs counts the graphs of all layers for a prompt in chunks. With share, graphs that
// chunks can share are built once.
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

// Place chooses the graphs for a device with limit bytes of address space. Graphs with the most
// work per byte come first. The result is, for each graph of a layer, the number of layers whose
// graph fits on the device.
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
