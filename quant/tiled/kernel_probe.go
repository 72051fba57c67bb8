//go:build kernelprobe

package tiled

import (
	"fmt"

	"github.com/llmrun/llmrun/quant"
)

// ProbeKernels runs every work of this package on every path of the architecture; see
// quant.ProbeKernels.
func ProbeKernels() (all []quant.ProbeResult) {
	for name, path := range probePaths() {
		active, name = path, "tiled/"+name
		for typ := range formats {
			for _, tokens := range []int{1, 2, 4, 8, 16, 512} {
				all = append(all, probeMultiply(name, typ, tokens))
			}
		}
		all = append(all, probeOthers(name)...)
		all = append(all, probeJoins(name)...)
	}
	return all
}

const probeCols = 512

func probeActivations(tokens int) *Activations {
	a := &Activations{}
	a.Use(make([]float32, FloatsNeeded(probeCols, tokens)), probeCols, tokens)
	return a
}

func probeMultiply(path string, typ quant.Type, tokens int) quant.ProbeResult {
	const rows = 2 * TileRows
	n, err := Bytes(typ, rows, probeCols)
	if err != nil {
		panic(err)
	}
	m := &Matrix{Type: typ, Rows: rows, Cols: probeCols, Data: make([]byte, n)}
	wide := Wide(typ)
	s := NewScratchIn(make([]float32, ScratchFloats(tokens, wide)), tokens, wide)
	a, y := probeActivations(tokens), make([]float32, tokens*rows)
	return quant.Probe(path, fmt.Sprintf("multiply%d/%s", tokens, typ), func() { Multiply(y, m, 0, m.Tiles(), a, s) })
}

func probeOthers(path string) (all []quant.ProbeResult) {
	a, s := probeActivations(1), NewScratch(TileTokens)
	keys := Keys{Codes: make([]uint8, KeyBlock*probeCols), Scales: make([]float32, KeyBlock)}
	keys4, x := make([]byte, key4Bytes(probeCols)), make([]float32, probeCols)
	all = append(all,
		quant.Probe(path, "quantize", func() { a.Set(0, x) }),
		quant.Probe(path, "quantizeKV/k4", func() { PutKey4(keys4, 0, probeCols, x) }))
	for _, queries := range []int{1, 8} {
		a, y := probeActivations(queries), make([]float32, PaddedTokens(queries)*KeyBlock)
		all = append(all,
			quant.Probe(path, fmt.Sprintf("scores%d/k8", queries), func() { Scores(y, keys, keys.Codes, a, s) }),
			quant.Probe(path, fmt.Sprintf("scores%d/k4", queries), func() { Scores4(y, keys4, keys4, a, s) }))
	}
	return all
}

// probeJoins joins the planes of a tile block, and multiplies high planes with one token.
func probeJoins(path string) (all []quant.ProbeResult) {
	for high, t := range map[Plane]quant.Type{High4: quant.Q8_0, High3: quant.Q4_0, High2: quant.Q4_0} {
		bytes := func(p Plane) []byte { return make([]byte, p.BlockBytes(t)*TileRows) }
		all = append(all, quant.Probe(path, fmt.Sprintf("join%d/%s", high, t), func() {
			JoinPlanes(bytes(Whole), high, t, bytes(high), bytes(high.Other()))
		}))
	}
	a, s, y := probeActivations(1), NewScratch(1), make([]float32, 2*TileRows)
	for t := range formats {
		for _, high := range []Plane{High4, High3, High2} {
			if !high.Of(t) || t == quant.Q4_0 { // Q4_0 has the kernels of NF4
				continue
			}
			m := Matrix{Type: t, Rows: len(y), Cols: probeCols}
			m.Data = make([]byte, len(y)*probeCols/t.BlockElems()*high.BlockBytes(t))
			joined := make([]byte, JoinedBytes(t, probeCols))
			all = append(all, quant.Probe(path, fmt.Sprintf("high%d/%s", high, t), func() {
				MultiplyHigh(y, &Planes{High: m, Plane: high}, 0, 2, a, s, joined)
			}))
		}
	}
	return all
}
