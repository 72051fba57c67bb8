//go:build kernelprobe

package quant

// This file is built by quant/internal/kerneltable only, which replaces every assembly function
// with one that records its name. It runs each work on each path and so asks the dispatch itself
// which kernels the path has.

// ran are the kernels that the current work called.
var ran []string

// Record notes that a kernel was called.
func Record(name string) { ran = append(ran, name) }

// ProbeResult says which kernels a path calls for a work.
type ProbeResult struct {
	Path, Work string
	Kernels    []string // in the order of their first calls; none means portable Go
}

// Probe runs a work and returns the kernels that it called.
func Probe(path, work string, run func()) ProbeResult {
	ran = nil
	run()
	r := ProbeResult{Path: path, Work: work}
	seen := map[string]bool{}
	for _, name := range ran {
		if !seen[name] {
			seen[name] = true
			r.Kernels = append(r.Kernels, name)
		}
	}
	return r
}

// probeElems are the elements of a row: whole blocks of every format, and whole steps of kernels.
const probeElems = 512

// probeWork is a work of this package.
type probeWork struct {
	name string
	run  func()
}

// ProbeKernels runs every work of this package on every path of the architecture.
func ProbeKernels() (all []ProbeResult) {
	works := append(probeRows(), append(probeAttention(), probeVectors()...)...)
	for name, path := range probePaths() {
		active = path
		for _, w := range works {
			all = append(all, Probe("quant/"+name, w.name, w.run))
		}
	}
	return all
}

func floats(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// probeRows are the works on rows of weights, and on weights that are not tiled.
func probeRows() (works []probeWork) {
	x, y := floats(8*probeElems), floats(8*16)
	s := NewScratch(probeElems)
	for t := F16; t < numTypes; t++ {
		size, err := t.RowBytes(probeElems)
		if err != nil {
			panic(err)
		}
		row := make([]byte, 16*size)
		works = append(works, probeWork{"row/" + t.String(), func() { DequantRow(t, x[:probeElems], row[:size]) }})
		if t <= BF16 {
			works = append(works,
				probeWork{"exact1/" + t.String(), func() { MulRows(y, 16, t, row, probeElems, 0, 16, x, 1, s) }},
				probeWork{"exact8/" + t.String(), func() { MulRows(y, 16, t, row, probeElems, 0, 16, x, 8, s) }})
		}
	}
	return works
}

// probeAttention are the works of attention, with one query and with several.
func probeAttention() (works []probeWork) {
	const d = 128
	x, y, state := floats(BlockTokens*d), floats(8*BlockTokens), floats(8*(d+2))
	keys, pairs := make([]byte, 2*BlockTokens*d), make([]int8, 2*BlockTokens*d)
	scales, codes := floats(BlockTokens), make([]uint8, 4*d)
	s := NewScratch(d)
	w := make([]BlockWeights, 8)
	for i := range w {
		w[i].Attended = 1<<BlockTokens - 1
	}
	for name, n := range map[string]int{"1": 1, "8": 8} {
		works = append(works,
			probeWork{"scores" + name + "/f16", func() { MulRows(y, BlockTokens, F16, keys, d, 0, BlockTokens, x, n, s) }},
			probeWork{"scores" + name + "/f32", func() { MulRowsF32(y, BlockTokens, x, d, BlockTokens, d, x, d, n) }},
			probeWork{"values" + name + "/float", func() { WeightedSum(state, d+2, y, BlockTokens, x, d, BlockTokens, d, n) }},
			probeWork{"values" + name + "/v8", func() { WeightedSumBlock(state, d+2, d, w[:n], pairs, pairs, BlockTokens) }},
			probeWork{"values" + name + "/f8", func() { WeightedSumBlockF8(state, d+2, d, w[:n], keys, keys, BlockTokens) }})
	}
	return append(works,
		probeWork{"softmax/float", func() { SoftmaxBlock(y, BlockTokens) }},
		probeWork{"softmax/8", func() { SoftmaxBlocks(w, y, scales, state[d:], d+2, keys) }},
		probeWork{"exp", func() { Exp32(-1) }},
		probeWork{"quantizeKV/k8", func() { QuantizeKey8(codes, 4, x[:d]) }},
		probeWork{"quantizeKV/v8", func() { QuantizePairs8(pairs, x[:d]) }},
		probeWork{"quantizeKV/f8", func() { QuantizeF8(codes, x[:d]) }},
		probeWork{"quantizeKV/f16", func() { RoundF16(codes, x[:d]) }},
	)
}

// probeVectors are the works on vectors.
func probeVectors() []probeWork {
	x, y := floats(probeElems), floats(probeElems)
	return []probeWork{
		{"rmsNorm", func() { RMSNorm(y, x, x, 1, 0) }},
		{"layerNorm", func() { LayerNorm(y, x, x, nil, 1) }},
		{"silu", func() { SiluMul(y, x, x) }},
		{"geluTanh", func() { GeluTanhMul(y, x, x) }},
		{"geluErf", func() { GeluErfMul(y, x, x) }},
		{"softCap", func() { SoftCap(y, 1) }},
		{"add", func() { Add(y, x) }},
		{"addScaled", func() { AddScaled(y, x, 1) }},
		{"addProduct", func() { AddProduct(y, x, x) }},
		{"sigmoid", func() { SigmoidMul(y, floats(probeElems)) }},
		{"clampedSilu", func() { ClampedSiluMul(y, floats(probeElems), floats(probeElems), 1) }},
		{"relu2", func() { SquaredRelu(y, x) }},
		{"scale", func() { Scale(y, 2) }},
		{"advance", func() {
			AdvanceMatrix(y, y, 128, MatrixStep{Key: x[:4], Query: x[:4], Value: x[:128], Out: floats(128)})
		}},
		{"argMax", func() { ArgMax(y) }},
		{"allFinite", func() { AllFinite(y) }},
	}
}
