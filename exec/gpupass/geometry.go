package gpupass

import (
	"fmt"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/hetero/opencl"
)

// geometry derives sizes and tiles from the model and the device.
type geometry struct {
	spec    *arch.Spec // with the device's layers only
	context *opencl.Context
}

// maxKVHeads returns the largest number of KV heads of a layer.
func (g *geometry) maxKVHeads() int {
	most := 0
	for _, l := range g.spec.Layers {
		most = max(most, l.KVHeads)
	}
	return most
}

// qkvWidth returns the elements of a token's queries, keys and values in a layer.
func (g *geometry) qkvWidth(kvHeads int) int { return (g.spec.Heads + 2*kvHeads) * g.spec.HeadDim }

// angleFloats returns the elements of a token's RoPE angles of all rotations.
func (g *geometry) angleFloats() int {
	sum := 0
	for i := range g.spec.Ropes {
		sum += g.spec.Ropes[i].Dim
	}
	return sum
}

// ropeDim returns how many elements of a head a layer rotates.
func (g *geometry) ropeDim(l *arch.LayerSpec) int {
	if l.Rope < 0 || len(g.spec.Ropes) == 0 {
		return 0
	}
	return g.spec.Ropes[l.Rope].Dim
}

// layerOptions returns the build options of a layer's kernels.
func (g *geometry) layerOptions(l *arch.LayerSpec) string {
	s := g.spec
	interleave, norm := 0, 0
	if s.Interleave {
		interleave = 1
	}
	if s.QKNorm == arch.QKNormHead {
		norm = 1
	}
	queries, keys := g.attentionTile()
	return fmt.Sprintf("-DHEADS=%d -DKV_HEADS=%d -DHEAD_DIM=%d -DROPE_DIM=%d -DINTERLEAVE=%d -DQK_NORM=%d -DTILE_QUERIES=%d -DTILE_KEYS=%d",
		s.Heads, l.KVHeads, s.HeadDim, g.ropeDim(l), interleave, norm, queries, keys)
}

// attentionTile returns the tile size of attention over many tokens: the largest
// that fits into a group's local memory.
func (g *geometry) attentionTile() (queries, keys int) {
	width := 4 * ((g.spec.HeadDim+15)/16*16 + 4)
	for _, t := range [][2]int{{32, 32}, {16, 32}, {16, 16}} {
		fits := int64((t[0]+t[1])*width+4*t[0]*(t[1]+1)) <= min(g.context.Info.LocalMemory, maxLocal)
		if fits && 8*t[0] <= g.context.Info.MaxGroup {
			return t[0], t[1]
		}
	}
	return 8, 8
}

// tokenBytes returns the KV bytes of a token in a layer.
func (g *geometry) tokenBytes(l int) int {
	dims := (g.spec.HeadDim + 15) / 16 * 16
	return g.spec.Layers[l].KVHeads * (2*dims + 8)
}

// manyFloats returns the elements of input, h, qkv, att and hidden.
func (g *geometry) manyFloats(rows, inner int) [5]int {
	s := g.spec
	angles := (rows*g.angleFloats() + 3) / 4 * 4
	return [...]int{angles + rows*s.Dim, rows * s.Dim, rows * g.qkvWidth(g.maxKVHeads()), rows * s.Heads * s.HeadDim, 2 * rows * inner}
}

// angleOffset returns the element where a layer's angles begin, in a buffer with
// the angles of so many tokens for each rotation, starting at from.
func (g *geometry) angleOffset(l *arch.LayerSpec, tokens, from int) int {
	for i := range g.spec.Ropes {
		if i >= l.Rope {
			break
		}
		from += tokens * g.spec.Ropes[i].Dim
	}
	return from
}

// attendLocal returns an upper bound of a group's local memory, see
// hetero/opencl/kernels/attend.cl: per work item 16 partial sums and three numbers,
// and a query, key and value.
func (g *geometry) attendLocal(size int) int64 {
	dims := (g.spec.HeadDim + 15) / 16 * 16
	return int64(4*size*(16+3) + 40*dims)
}

// attendGroups returns the group sizes for attention of one token.
func (g *geometry) attendGroups() []int {
	info, sizes := &g.context.Info, []int{smallGroup}
	// On CPUs work items are loop iterations.
	if info.Kind == "GPU" && largeGroup <= info.MaxGroup && g.attendLocal(largeGroup) <= info.LocalMemory {
		sizes = append(sizes, largeGroup)
	}
	return sizes
}

// writeAngles writes the RoPE angles of a chunk's positions, grouped by rotation,
// each group with room for so many tokens.
func (g *geometry) writeAngles(to []float32, c *exec.Chunk, room int) {
	for i := range g.spec.Ropes {
		r := &g.spec.Ropes[i]
		half := r.Dim / 2
		for j := range c.Tokens {
			at := to[j*r.Dim:][:r.Dim]
			r.Angles(at[:half], at[half:], c.Position+j, c.Long)
		}
		to = to[room*r.Dim:]
	}
}

// maxLocal bounds a group's local memory, so that several groups fit on a compute
// unit.
const maxLocal = 40 << 10
