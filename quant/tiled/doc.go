// Package tiled computes matmuls of quantized weights with int8 activations.
//
// It stores the exact bits of a model file's weights in a different order: tiles
// of [TileRows] rows, in which the elements that one instruction reads are
// adjacent. It quantizes activations to int8 with one scale per group of
// [GroupElems] elements. A dot product is then an exact integer sum per group,
// followed by one float32 multiply-add per group.
//
// # Arithmetic
//
// A weight is scale·(code-zero) - min. Each row and group has a scale and a min;
// each format has one zero point. In I4Z, every row and group has its own zero
// point; there min is scale·zero, which is exact, and the format's zero point
// is 0. An element of the result accumulates over the groups g in ascending order,
// starting with acc = +0; fma rounds once:
//
//	i   = Σ (code-zero)·q           over the group; exact
//	acc = fma(float32(i)·scale, d, acc)
//	acc = fma(-(float32(Σ q)·d), min, acc)   in formats with a min
//
// where q are the quantized activations and d is their scale. In Q6_K, all groups
// of a block share scale, and each half of a group has an int8 factor:
//
//	i   = Σ factor·Σ (code-zero)·q  over the halves, over a half; exact
//
// |i| is at most 2·128·16·32·127 = 16 646 144 < 2^24, so float32 represents i and
// its partial sums exactly. The formula involves one row and one token only. The
// result therefore does not depend on how callers split the work, and every
// instruction set computes the same bits. This holds for finite results. With a
// scale above 2^103, which only MXFP4 can express, one instruction set may
// overflow where another does not.
//
// In the low-bit formats with half groups (IQ1_M, IQ2_XS, IQ2_S and NVFP4), a factor may be an 8-bit float.
// A half's sum has at most 17 bits and a factor 5, so each product is exact in float32, and their
// sum rounds once.
//
// # Full registers
//
// A group of 32 4-bit codes takes 16 bytes and has one scale, too little to fill a
// vector register. A tile therefore stores the same group of 16 rows together. The
// codes take 256 bytes: four AVX-512, eight AVX2 or sixteen NEON registers. The
// binary16 scales take 32 bytes and widen to one AVX-512 register of float32 with
// one row per lane. A kernel loads full registers of codes and needs no broadcast
// of scales, because each scale is already in the lane of its row's sum.
//
// The super-groups of mobile inference engines with matrix units instead fill
// registers with eight adjacent groups of one row (8·16 bytes of codes and 8
// scales). A register then holds the scales of consecutive groups, and the kernel
// has to broadcast each of them. Here, only formats with blocks of 256 elements
// store eight groups of a row together, because their packed 6-bit scales span
// the block.
//
// # Quantization of activations
//
// With a the largest magnitude of a group, q = round(x·(127/a)), ties to even, and
// d = a/127. If a is below 2^-100, all q and d are 0. If an element is infinite or
// NaN, d is not finite either, and neither is any result.
package tiled
