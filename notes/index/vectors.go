package index

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
)

const (
	// MaxDims is the most elements of a vector.
	MaxDims   = 1 << 14
	blockRows = 256 // rows of a block of vectors, a multiple of tiled.TileRows
)

// vectors are rows of int8 with a scale for each 32 elements, in the tiles of the matmul kernels, and 4 bits of what
// rounding leaves of each element. A search multiplies the int8 of all rows, and the 4 bits of the best ones: int8
// alone confuses neighbours among 50000 rows. A row belongs to a key; passages with equal texts share it.
type vectors struct {
	model  string
	dims   int
	rows   int
	byKey  map[Key]int32
	blocks [][]byte // [blockRows/TileRows] tiles each
	fine   [][]byte // [blockRows, groups, 16]: the 4 bits of elements i and i+16 of a group, plus 8
	scales [][]byte // [blockRows, groups] binary16
	tile   []byte   // rows of the last tile, in the layout of Q8_0
}

// cols returns the elements of a row with its padding.
func (v *vectors) cols() int { return columns(v.dims) }

func columns(dims int) int {
	return (dims + tiled.GroupElems - 1) / tiled.GroupElems * tiled.GroupElems
}

const (
	coarseBytes = 34 // of a group of 32 elements: a scale and int8
	fineBytes   = 16 // 4 bits for each element
	fineSteps   = 16 // of 4 bits in one of int8
)

// rowBytes returns the length of a row in a file: its int8, then its 4 bits.
func rowBytes(dims int) int { return groups(dims) * (coarseBytes + fineBytes) }

func groups(dims int) int { return columns(dims) / tiled.GroupElems }

// bytes returns about how much memory the vectors take.
func (v *vectors) bytes() int64 {
	return int64(len(v.blocks))*int64(blockRows*groups(v.dims)*(coarseBytes+fineBytes+2)) + int64(len(v.byKey))*56
}

// reset forgets all vectors, for another model.
func (v *vectors) reset(model string, dims int) {
	*v = vectors{model: model, dims: dims, byKey: map[Key]int32{}, tile: make([]byte, tiled.TileRows*groups(dims)*coarseBytes)}
}

// add adds a row, unless its key has one.
func (v *vectors) add(key Key, row []byte) {
	if _, known := v.byKey[key]; known {
		return
	}
	n := groups(v.dims)
	size := n * coarseBytes
	in := v.rows % blockRows
	if in == 0 {
		v.blocks = append(v.blocks, make([]byte, blockRows*size))
		v.fine = append(v.fine, make([]byte, blockRows*n*fineBytes))
		v.scales = append(v.scales, make([]byte, blockRows*n*2))
	}
	last := len(v.blocks) - 1
	copy(v.fine[last][in*n*fineBytes:], row[size:])
	for g := range n {
		copy(v.scales[last][(in*n+g)*2:], row[g*coarseBytes:][:2])
	}
	row = row[:size]
	if in%tiled.TileRows == 0 {
		clear(v.tile)
	}
	copy(v.tile[in%tiled.TileRows*size:], row)
	at := in / tiled.TileRows * tiled.TileRows * size
	tiled.Pack(v.blocks[last][at:at+len(v.tile)], quant.Q8_0, v.tile, tiled.TileRows, v.cols())
	v.byKey[key] = int32(v.rows)
	v.rows++
}

// QuantizeVector appends the row of a vector, which it normalizes.
func QuantizeVector(b []byte, x []float32) ([]byte, error) {
	unit, err := normalized(x)
	if err != nil {
		return nil, err
	}
	row := make([]byte, rowBytes(len(x)))
	n := groups(len(x))
	if err := quant.QuantizeRow(quant.Q8_0, row[:n*coarseBytes], unit, nil); err != nil {
		return nil, err
	}
	for g := range n {
		refine(row[n*coarseBytes+g*fineBytes:][:fineBytes], row[g*coarseBytes:][:coarseBytes], unit[g*tiled.GroupElems:][:tiled.GroupElems])
	}
	return append(b, row...), nil
}

// refine writes the 4 bits of what a group's int8 leave of its elements.
func refine(fine, coarse []byte, x []float32) {
	scale := float64(scaleAt(coarse))
	for i := range fineBytes {
		var pair [2]byte
		for half := range pair {
			at := i + half*fineBytes
			steps := 0.0
			if scale > 0 {
				steps = math.RoundToEven((float64(x[at])/scale - float64(int8(coarse[2+at]))) * fineSteps)
			}
			pair[half] = byte(max(-8, min(7, steps)) + 8)
		}
		fine[i] = pair[0] | pair[1]<<4
	}
}

func scaleAt(b []byte) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(b)) }

// normalized returns a vector of length 1 with padding behind it.
func normalized(x []float32) ([]float32, error) {
	sum := 0.0
	for _, v := range x {
		sum += float64(float64(v) * float64(v)) // not fused, so that every processor gets the same sum
	}
	if len(x) == 0 || len(x) > MaxDims || math.IsNaN(sum) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("a vector of %d elements is empty, too long or not finite", len(x))
	}
	unit := make([]float32, columns(len(x)))
	if sum > 0 {
		length := math.Sqrt(sum)
		for i, v := range x {
			unit[i] = float32(float64(v) / length)
		}
	}
	return unit, nil
}

// rest returns the dot product of a query with the 4 bits of a row.
func (v *vectors) rest(row int, query []float32) (sum float64) {
	n := groups(v.dims)
	in := row % blockRows
	fine, scales := v.fine[row/blockRows][in*n*fineBytes:], v.scales[row/blockRows][in*n*2:]
	for g := range n {
		x := query[g*tiled.GroupElems:][:tiled.GroupElems]
		part := 0.0
		for i, b := range fine[g*fineBytes:][:fineBytes] {
			part += float64(float64(int(b&15)-8)*float64(x[i])) + float64(float64(int(b>>4)-8)*float64(x[i+fineBytes]))
		}
		sum += float64(part * float64(scaleAt(scales[2*g:])) / fineSteps)
	}
	return sum
}

// scores returns the dot product of a query with each row. The query is the sum of two vectors of int8: the second one
// is what the first one's rounding leaves. So only the rounding of the rows changes the order of the hits.
func (v *vectors) scores(query []float32) ([]float32, error) {
	if len(query) != v.dims {
		return nil, fmt.Errorf("the question's vector has %d elements, those of the index have %d", len(query), v.dims)
	}
	unit, err := normalized(query)
	if err != nil {
		return nil, err
	}
	first, rest := splitQuery(unit)
	var a tiled.Activations
	a.Use(make([]float32, tiled.FloatsNeeded(v.cols(), 2)), v.cols(), 2)
	a.Set(0, first)
	a.Set(1, rest)
	scratch := tiled.NewScratch(2)
	y := make([]float32, 2*blockRows)
	all := make([]float32, len(v.blocks)*blockRows)
	for i, block := range v.blocks {
		m := tiled.Matrix{Type: quant.Q8_0, Rows: blockRows, Cols: v.cols(), Data: block}
		tiled.Multiply(y, &m, 0, m.Tiles(), &a, scratch)
		for row := range blockRows {
			all[i*blockRows+row] = y[row] + y[blockRows+row]
		}
	}
	return all[:v.rows], nil
}

// splitQuery returns a vector that int8 with a scale for each group represents exactly, and the rest of x.
func splitQuery(x []float32) (first, rest []float32) {
	first, rest = make([]float32, len(x)), make([]float32, len(x))
	for g := 0; g < len(x); g += tiled.GroupElems {
		most := float32(0)
		for _, v := range x[g : g+tiled.GroupElems] {
			most = max(most, float32(math.Abs(float64(v))))
		}
		if most < 0x1p-90 {
			continue // too small for a scale
		}
		scale := most / 127
		for i := g; i < g+tiled.GroupElems; i++ {
			first[i] = float32(float32(math.RoundToEven(float64(x[i]/scale))) * scale)
			rest[i] = x[i] - first[i]
		}
	}
	return first, rest
}
