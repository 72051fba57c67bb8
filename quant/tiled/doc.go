// Package tiled multiplies quantized weights with activations in integers.
//
// Weights are kept as model files have them, bit for bit, but in another
// order: tiles of [TileRows] rows, in which the elements that one instruction
// takes lie side by side. Activations are rounded to int8, with a scale for
// each group of [GroupElems] elements. A product is then sums of small
// integers, which are exact on every machine, and one multiply-add in float32
// for each group.
//
// # Arithmetic
//
// Weights of a group stand for scale·(code-zero) - min, where scale and min
// belong to a row and group and zero to the format. In I4Z,
// where rows and groups have zeros of their own, min is scale·zero, which is
// exact, and the format's zero is 0. An
// element of the result is, with g over the groups in ascending order, acc
// beginning at +0 and fma rounding once:
//
//	i   = Σ (code-zero)·q           over the group; exact
//	acc = fma(float32(i)·scale, d, acc)
//	acc = fma(-(float32(Σ q)·d), min, acc)   in formats with a min
//
// where q are the rounded activations and d is their scale. In Q6_K scale is the
// block's, and each half of a group has a whole number of its own, a factor from
// -128 to 127, that stands for a part of the scale:
//
//	i   = Σ factor·Σ (code-zero)·q  over the halves, over a half; exact
//
// Its magnitude is at most 2·128·16·32·127 = 16 646 144, which is below 2^24: a
// float32 has i exactly, and also what of it a path may compute in floats. The
// definition does not mention other rows or other tokens: results do not depend
// on how work is divided, and every instruction set gives the same bits. The
// promise is for finite results. A scale beyond 2^103, which only MXFP4 can
// express, may give a result that is finite on one instruction set and not on
// another.
//
// # Whole registers
//
// A group of 32 codes of 4 bits has 16 bytes and one scale, which fills no vector
// register. A tile therefore keeps the same group of 16 rows together: their
// codes are 256 bytes, or four AVX-512 registers (eight of AVX2, sixteen of NEON),
// and their scales 32 bytes, which widen to one AVX-512 register of float32 with
// one row a lane. Codes are loaded by whole registers, and a scale needs no
// broadcast: it already is in the lane of its row's sum.
//
// Super-groups, in mobile inference with matrix units, fill registers with eight
// neighbouring groups of one row instead (8·16 bytes of codes and 8 scales).
// What is coalesced is the same; the axis differs. Along a row, a register would
// hold the scales of groups that are used one after the other, and each would
// have to be spread over the lanes. Only formats whose files have blocks of 256
// elements keep eight groups of a row together here as well: their 6-bit scales
// are packed across them.
//
// # Rounding of activations
//
// Activations are rounded as q = round(x·(127/a)), halves to even, and d = a/127,
// where a is the largest magnitude of the group; a group of nothing above 2^-100
// is all zeros, d = 0. Where an element is infinite or a NaN so is d, and no
// result is finite.
package tiled
