// Package quant holds the number formats that weights, activations and KV are
// stored in, and the arithmetic on them: exact decoders, matrix products and
// the small vector functions of a transformer, each a SIMD kernel beside a
// portable twin that defines its result.
//
// # The arithmetic contract
//
// On one device, the logits of a token are bit-identical for any chunk size,
// batch size and thread count. The kernels keep that promise by being
// batch-invariant: an output element is computed by one fixed sequence of
// operations, whatever else is computed beside it.
//
//   - Dot of n elements has 16 lanes, each starting from +0. Lane i takes
//     elements i, i+16, i+32, … in order, lane = mulAdd(a, b, lane). A tail of
//     n%16 elements touches only its own lanes. A tree then adds the lanes:
//     lane[i] += lane[i+8] for i < 8, then +4, +2, +1. Sixteen lanes are one
//     AVX-512 register, two of AVX2, four of NEON.
//   - MulRows and MulRowsF32 are that Dot for every pair of row and token.
//     Quantized weights are decoded to float32 first (exactly, see
//     DequantRow); activations are never quantized.
//   - WeightedSum adds tokens in ascending order, every element for itself:
//     o[d] = mulAdd(p[j], v[j][d], o[d]).
//   - SoftmaxBlocks and WeightedSumBlock, attention over values in 8 bits, round
//     softmax weights to 16 bits for each block of 64 tokens; their sums are
//     of integers and exact. WeightedSumBlockF8 has the same weights
//     for values in 8-bit floats; its products are exact, and added to a float32
//     token after token (see attend.go).
//   - Keys and values are rounded to codes by functions of one token alone, with
//     the same bits on every path (see quantize_kv.go).
//   - Exponentials come from Exp32, a polynomial whose steps are fixed; sums
//     of them use the 16 lanes and the tree of Dot.
//   - Everything else is elementwise, in the order that each function states,
//     with every operation rounded to float32.
//
// mulAdd comes in two flavours. SIMD kernels fuse it: a*b+c is rounded once.
// Portable code, which runs with the noasm build tag and on processors without
// a kernel, rounds the product and the sum: an exact fused multiply-add has to
// be emulated there and is seven times slower. The order of operations is the
// same, so the flavours differ in last bits only. Each portable function exists
// in both flavours, and the fused one is the oracle that tests compare every
// SIMD kernel with, bit for bit.
//
// Nothing depends on the compiler's own choice to fuse: where a product is
// added to something, the product is converted explicitly. NaNs stay NaNs, but
// which NaN they are is not part of the contract.
//
// # Choosing a path
//
// The best kernels that the processor supports are chosen at start; Features
// names them. The environment variable LLMRUN_CPU, one of portable, avx2,
// avx512 or neon, selects a lesser path, for debugging and measurements; a
// path that the processor does not support is ignored.
//
// CheckCodes and CheckFloats compare the attention kernels with their portable
// twins on the running machine; the engine loads no model if they differ.
package quant
