package tiled

import (
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

// kernels is one path: what has an implementation for each instruction set. A
// path embeds the portable one and overrides what it does better; results are
// the same to the last bit.
type kernels interface {
	name() string
	// decode fills a panel from a tile block, see panel.decode.
	decode(p *panel, f *format, block []byte, at int)
	// mulPanel multiplies a panel with a tile of tokens.
	mulPanel(a *kernelArgs)
	// mulVec computes the sums of one tile of rows for one token straight from
	// the tile, or reports false where there is no such kernel for t.
	mulVec(sums []float32 /* [TileRows] */, t quant.Type, tile []byte, a *Activations) bool
}

// active is the path in use; tests switch it.
var active = paths()[0]

// portable is the path of plain Go, which defines the others.
type portable struct{}

func (portable) name() string { return "portable" }

func (portable) decode(p *panel, f *format, block []byte, at int) { p.decode(f, block, at) }

func (portable) mulVec([]float32, quant.Type, []byte, *Activations) bool { return false }

func (portable) mulPanel(a *kernelArgs) {
	sums := unsafe.Slice(a.sums, a.width*TileRows)
	codes := unsafe.Slice(a.codes, a.groups*planes*planeBytes)
	scales := unsafe.Slice(a.scales, a.groups*a.halves*TileRows)
	x := unsafe.Slice(a.x, a.groups*a.width*GroupElems)
	dx, shift := unsafe.Slice(a.dx, a.groups*a.width), unsafe.Slice(a.shift, a.groups*a.width)
	less := unsafe.Slice(a.less, a.groups*a.halves*a.width)
	elems := GroupElems / a.halves
	for g := range a.groups {
		for t := range a.width {
			token := x[(g*a.width+t)*GroupElems:][:GroupElems]
			for row := range TileRows {
				acc := &sums[t*TileRows+row]
				for h := range a.halves {
					i := less[(g*a.halves+h)*a.width+t] << a.zero
					for k := h * elems; k < (h+1)*elems; k++ {
						at := (g*planes+k/laneBytes)*planeBytes + row*laneBytes + k%laneBytes
						i += int32(codes[at]) * int32(token[k])
					}
					*acc = quant.FMA32(float32(i)*dx[g*a.width+t], scales[(g*a.halves+h)*TileRows+row], *acc)
				}
				if a.mins != nil {
					mins := unsafe.Slice(a.mins, a.groups*TileRows)
					*acc = quant.FMA32(shift[g*a.width+t], mins[g*TileRows+row], *acc)
				}
			}
		}
	}
}

// asInt8 and asInt32 view the memory of floats as integers.
func asInt8(f []float32) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func asInt32(f []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(f))), len(f))
}
