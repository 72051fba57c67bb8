package quant

import "os"

//go:generate go run ./internal/asmgen

// kernels is one path: the functions that have an implementation for each
// instruction set. Slices are as long as their shapes say, checked by the
// exported function that calls a kernel. A path embeds the next lesser one and
// overrides what it does better, down to the portable twin in its flavour.
//
// Implementations are stateless and safe for concurrent use.
type kernels interface {
	// name is the path's name in Features and LLMRUN_CPU.
	name() string
	// flavour returns the rounding of the path's mulAdd: fused or unfused.
	flavour() arith

	dequant(t Type, dst []float32 /* [cols] */, src []byte)
	dot(a, b []float32 /* [n] */) float32
	// mulF32 is MulRowsF32.
	mulF32(y []float32, yStride int, w []float32, wStride, rows, cols int, x []float32, xStride, n int)
	// gemv computes y[r] = Dot(row r, x) without decoding rows to memory, or
	// reports false when the path has no such kernel for t.
	gemv(y []float32 /* [rows] */, t Type, w []byte /* [rows, cols] */, rows, cols int, x []float32 /* [cols] */) bool
	weightedSum(o []float32, oStride int, p []float32, pStride int, v []float32, vStride, tokens, d, n int)
	// advance is AdvanceMatrix; kq is Dot of the key and the query.
	advance(to, from []float32 /* [keys, stride] */, stride int, s MatrixStep, kq float32)

	// maxOf returns the largest element that is not a NaN, -Inf without one.
	maxOf(p []float32 /* [n] */) float32
	// exp is Exp32.
	exp(x float32) float32
	// expSum replaces p[i] by Exp32(p[i]-shift) and returns the 16-lane sum.
	expSum(p []float32 /* [n] */, shift float32) float32
	// softmaxBlocks is SoftmaxBlocks, weightedSumBlock WeightedSumBlock for pairs of tokens.
	softmaxBlocks(w []BlockWeights, scores []float32, scales *[BlockTokens]float32, state []float32, stride int, next []byte)
	weightedSumBlock(o []float32, stride, d int, w []BlockWeights, values, next []int8, pairs int)
	// weightedSumF8 is WeightedSumBlockF8.
	weightedSumF8(o []float32, stride, d int, w []BlockWeights, values, next []uint8, count int)
	// largestBits returns the bits of the largest magnitude; NaNs are largest.
	largestBits(x []float32 /* [n] */) uint32
	// quantizeKey8, quantizePairs8 and quantizeF8 round x times inverse as QuantizeKey8,
	// QuantizePairs8 and QuantizeF8 do; roundF16 is RoundF16.
	quantizeKey8(dst []uint8, step int, x []float32 /* [n] */, inverse float32)
	quantizePairs8(dst []int8, x []float32 /* [n] */, inverse float32)
	quantizeF8(dst []uint8, x []float32 /* [n] */, inverse float32)
	roundF16(dst []byte, x []float32 /* [n] */)
	// silu, geluTanh and geluErf are Silu, GeluTanh and GeluErf.
	silu(dst, x []float32 /* [n] */)
	// sigmoid computes dst[i] = Sigmoid32(x[i]).
	sigmoid(dst, x []float32 /* [n] */)
	geluTanh(dst, x []float32 /* [n] */)
	geluErf(dst, x []float32 /* [n] */)
	// add, mulBy, scale, addScaled and addProduct are Add, Mul, Scale, AddScaled and AddProduct.
	add(dst, a []float32 /* [n] */)
	mulBy(dst, a []float32 /* [n] */)
	scale(dst []float32 /* [n] */, s float32)
	addScaled(dst, a []float32 /* [n] */, s float32)
	addProduct(dst, a, b []float32 /* [n] */)
	// clamp computes x[i] = (min(max(x[i], low), high) + offset) * factor and keeps NaNs.
	clamp(x []float32 /* [n] */, low, high, offset, factor float32)
	// norm computes dst[i] = float32(x[i]*scale) * (offset + weight[i]).
	norm(dst, x, weight []float32 /* [n] */, scale, offset float32)
	// softCap is SoftCap.
	softCap(x []float32 /* [n] */, limit float32)
}

// active is the path in use. It is set once, before main, and switched by
// tests only.
var active = choose(os.Getenv("LLMRUN_CPU"))

// choose returns the path of the given name, or the best one when there is
// none of that name.
func choose(name string) kernels {
	paths := supportedPaths()
	for _, path := range paths {
		if path.name() == name {
			return path
		}
	}
	return paths[0]
}

// Features names the path in use: "avx512", "avx2", "neon" or "portable".
func Features() string { return active.name() }

// Tiles reports whether the path in use may multiply with the tile registers of
// AMX too. It may not where LLMRUN_CPU selects a path.
func Tiles() bool {
	return os.Getenv("LLMRUN_CPU") == "" && Features() == "avx512" && tilesAllowed()
}

// portable is the path of plain Go in one of the two flavours. The unfused one
// runs where there is no SIMD path; the fused one defines the SIMD paths.
type portable struct{ ar arith }

func (k portable) name() string {
	if k.ar == fused {
		return "portable-fused"
	}
	return "portable"
}

func (k portable) flavour() arith { return k.ar }

func (k portable) dequant(t Type, dst []float32, src []byte) { dequantPortable(t, dst, src) }
