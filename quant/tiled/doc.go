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
// belong to a row and group (a half group in Q6_K) and zero to the format. In I4Z,
// where rows and groups have zeros of their own, min is scale·zero, which is
// exact, and the format's zero is 0. An
// element of the result is, with g over the groups in ascending order, acc
// beginning at +0 and fma rounding once:
//
//	i   = Σ (code-zero)·q           over the group; exact
//	acc = fma(float32(i)·scale, d, acc)
//	acc = fma(-(float32(Σ q)·d), min, acc)   in formats with a min
//
// where q are the rounded activations and d is their scale. In a format with
// half groups the first two lines are done for each half. The definition does
// not mention other rows or other tokens: results do not depend on how work
// is divided, and every instruction set gives the same bits. The promise is
// for finite results. A scale beyond 2^103, which only MXFP4 can express, may
// give a result that is finite on one instruction set and not on another.
//
// Activations are rounded as q = round(x·(127/a)), halves to even, and d = a/127,
// where a is the largest magnitude of the group; a group of nothing above 2^-100
// is all zeros, d = 0. Where an element is infinite or a NaN so is d, and no
// result is finite.
package tiled
