//go:build !noasm

package quant

import "unsafe"

//go:noescape
func addAVX2(dst, a *float32, n int)

//go:noescape
func mulByAVX2(dst, a *float32, n int)

//go:noescape
func scaleAVX2(dst *float32, n int, s float32)

//go:noescape
func normAVX2(dst, x, weight *float32, n int, scale, offset float32)

//go:noescape
func addScaledAVX2(dst, a *float32, n int, s float32)

//go:noescape
func addProductAVX2(dst, a, b *float32, n int)

//go:noescape
func clampAVX2(x *float32, n int, low, high, offset, factor float32)

func expAVX2(x float32) float32

// elementwise overrides what is the same for the avx2 and avx512 paths.
type elementwise struct{ quantizer }

func (elementwise) add(dst, a []float32 /* [n] */) {
	addAVX2(unsafe.SliceData(dst), unsafe.SliceData(a), len(dst))
}

func (elementwise) mulBy(dst, a []float32 /* [n] */) {
	mulByAVX2(unsafe.SliceData(dst), unsafe.SliceData(a), len(dst))
}

func (elementwise) scale(dst []float32 /* [n] */, s float32) {
	scaleAVX2(unsafe.SliceData(dst), len(dst), s)
}

func (elementwise) norm(dst, x, weight []float32 /* [n] */, scale, offset float32) {
	normAVX2(unsafe.SliceData(dst), unsafe.SliceData(x), unsafe.SliceData(weight), len(dst), scale, offset)
}

func (elementwise) addScaled(dst, a []float32 /* [n] */, s float32) {
	addScaledAVX2(unsafe.SliceData(dst), unsafe.SliceData(a), len(dst), s)
}

func (elementwise) addProduct(dst, a, b []float32 /* [n] */) {
	addProductAVX2(unsafe.SliceData(dst), unsafe.SliceData(a), unsafe.SliceData(b), len(dst))
}

func (elementwise) clamp(x []float32 /* [n] */, low, high, offset, factor float32) {
	clampAVX2(unsafe.SliceData(x), len(x), low, high, offset, factor)
}

func (elementwise) exp(x float32) float32 { return expAVX2(x) }
