package tiled

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
)

// middle is how MultiplyHigh multiplies high planes: as tiles of another format, whose low bits are zero
// (or missing: the high plane of Q8_0 has the tile of nibbles) and whose table has the middles of the
// intervals; or as the format itself, with low bits that have the middle of the interval as their mean.
type middle struct {
	typ    quant.Type // of the kernels
	format *format
	factor float32 // of the results
}

var middles = findMiddles()

func findMiddles() map[quant.Type][numPlanes]middle {
	all := map[quant.Type][numPlanes]middle{}
	for t, f := range formats {
		var m [numPlanes]middle
		for p := range numPlanes {
			if p.IsHigh() && p.Of(t) {
				m[p] = middleOf(t, f, p)
			}
		}
		all[t] = m
	}
	return all
}

// middleOf returns how the high plane of a type is multiplied. NF4 has the kernels of nibbles that read a
// table; tables of even steps hold 16 times the middle.
func middleOf(t quant.Type, f *format, high Plane) middle {
	interval := 1 << planeInfos[high].low
	switch {
	case high == High4: // symmetric: 7 behind zero, 8 before
		return middle{quant.NF4, middleFormat(func(c int) int { return 16*c - 128 + 8 - c/8 }), 1}
	case f.bits != 4 || f.hasMin():
		return middle{t, f, 1}
	case f.table == &evenly:
		return middle{quant.NF4, middleFormat(func(c int) int { return 16*(c&^(interval-1)) - 128 + 8*(interval-1) }), 1.0 / 16}
	}
	means := *f
	means.table = tableOf(func(c int) (sum int) {
		for i := range interval {
			sum += int(f.table[c&^(interval-1)+i]) - f.zero
		}
		return sum/interval + f.zero
	})
	return middle{t, &means, 1}
}

func middleFormat(value func(code int) int) *format {
	return &format{halves: 1, bits: 4, zero: 128, table: tableOf(func(c int) int { return value(c) + 128 }), block: nibbleBlock}
}

func tableOf(value func(code int) int) *[16]uint8 {
	var table [16]uint8
	for c := range table {
		table[c] = uint8(value(c))
	}
	return &table
}

// fill returns the low plane of a group whose high plane is multiplied alone.
func (f *format) fill(high Plane) *[nibbleGroup]byte {
	switch {
	case f.bits == 8 || f.bits == 4 && !f.hasMin():
		return &fillZero
	case high == High3:
		return &fillOnes
	}
	return &fillTwos
}

// The low bits of codes that are first in their byte and of the second ones differ, so that their mean
// is the middle: 0 and 1, or 1 and 2.
var (
	fillZero [nibbleGroup]byte
	fillOnes = filled(0xF0)
	fillTwos = filled(0xA5)
)

func filled(b byte) (all [nibbleGroup]byte) {
	for i := range all {
		all[i] = b
	}
	return all
}

// JoinedBytes returns the memory that MultiplyPlanes and MultiplyHigh need for a matrix of a type: two
// tiles, which kernels for one token multiply together.
func JoinedBytes(t quant.Type, cols int) int {
	return 2 * TileRows * cols / t.BlockElems() * t.BlockBytes()
}

// Planes is a matrix in two planes. High.Data and Low.Data hold tiles of either; Low is not used by
// MultiplyHigh.
type Planes struct {
	High, Low Matrix
	Plane     Plane // of High
}

// of returns n tiles of a plane of a matrix, from tile t on.
func (w *Matrix) of(p Plane, t, n int) []byte {
	size := w.Cols / w.Type.BlockElems() * p.BlockBytes(w.Type) * TileRows
	return w.Data[(t-w.First)*size : (t-w.First+n)*size]
}

// MultiplyPlanes is Multiply of the whole codes. joined has [JoinedBytes] for the matrix.
func MultiplyPlanes(y []float32, w *Planes, t0, t1 int, a *Activations, s *Scratch, joined []byte) {
	whole := w.High
	for t := t0; t < t1; t += 2 {
		n := min(2, t1-t)
		JoinPlanes(joined, w.Plane, whole.Type, w.High.of(w.Plane, t, n), w.Low.of(w.Plane.Other(), t, n))
		whole.Data, whole.First = joined, t
		Multiply(y, &whole, t, t+n, a, s)
	}
}

// MultiplyHigh is Multiply with the high plane alone, which approximates it.
func MultiplyHigh(y []float32, w *Planes, t0, t1 int, a *Activations, s *Scratch, joined []byte) {
	middle := middles[w.High.Type][w.Plane]
	if middle.format == nil {
		panic(fmt.Sprintf("tiled: plane %d of %s has no high bits", w.Plane, w.High.Type))
	}
	m := w.High
	m.Type = middle.typ
	switch kernel := active.highGEMV(w.High.Type, w.Plane); {
	case w.Plane == High4:
		m.multiply(y, middle.format, t0, t1, a, s)
		return
	case kernel != nil && a.tokens == 1:
		w.multiplyOne(y, kernel, middle.format, t0, t1, a, s)
	default:
		for t := t0; t < t1; t += 2 {
			n := min(2, t1-t)
			JoinPlanes(joined, w.Plane, w.High.Type, w.High.of(w.Plane, t, n), nil)
			m.Data, m.First = joined, t
			m.multiply(y, middle.format, t, t+n, a, s)
		}
	}
	if middle.factor == 1 {
		return
	}
	stride := m.stride()
	for token := range a.tokens {
		quant.Scale(y[token*stride+t0*TileRows:token*stride+min(t1*TileRows, m.Rows)], middle.factor)
	}
}

// MultiplyHighOf is MultiplyHigh of a matrix of whole codes, whose plane it makes. It allocates, for measurements.
func MultiplyHighOf(y []float32, w *Matrix, high Plane, t0, t1 int, a *Activations, s *Scratch) {
	planes := Planes{High: *w, Plane: high}
	tiles := w.of(Whole, t0, t1-t0)
	planes.High.Data, planes.High.First = make([]byte, len(tiles)/w.Type.BlockBytes()*high.BlockBytes(w.Type)), t0
	SplitPlane(planes.High.Data, high, w.Type, tiles)
	MultiplyHigh(y, &planes, t0, t1, a, s, make([]byte, JoinedBytes(w.Type, w.Cols)))
}

// multiplyOne computes the products of tiles of the high plane with one token. f has the values of codes.
func (w *Planes) multiplyOne(y []float32, kernel func(*smallArgs), f *format, t0, t1 int, a *Activations, s *Scratch) {
	m := &w.High
	for t := t0; t < t1; t += smallTiles {
		n := min(smallTiles, t1-t)
		s.reserve(n, 1)
		tiles := m.of(w.Plane, t, n)
		s.small = smallArgs{
			sums: &s.results[0], tile: &tiles[0], tiles: n, size: len(tiles) / n,
			x: &a.codes[0], dx: &a.scale[0], shift: &a.shift[0], start: a.startAt(f, 0),
			table: f.table, blocks: a.cols / m.Type.BlockElems(), width: 1, panel: &s.panel,
		}
		s.small.inPairs(kernel)
		s.copyOut(y, m.stride(), m.Rows, t*TileRows, n, 1)
	}
}
