//go:build !noasm

package quant

import "unsafe"

// The elementwise kernels take elements in steps of lanes.

//go:noescape
func addNEON(dst, a *float32, n int)

//go:noescape
func mulByNEON(dst, a *float32, n int)

//go:noescape
func scaleNEON(dst *float32, n int, s float32)

//go:noescape
func normNEON(dst, x, weight *float32, n int, scale, offset float32)

//go:noescape
func addScaledNEON(dst, a *float32, n int, s float32)

//go:noescape
func addProductNEON(dst, a, b *float32, n int)

//go:noescape
func clampNEON(x *float32, n int, low, high, offset, factor float32)

func (k neon) add(dst, a []float32 /* [n] */) {
	whole := len(dst) / lanes * lanes
	if whole > 0 {
		addNEON(unsafe.SliceData(dst), unsafe.SliceData(a), whole)
	}
	k.portable.add(dst[whole:], a[whole:])
}

func (k neon) mulBy(dst, a []float32 /* [n] */) {
	whole := len(dst) / lanes * lanes
	if whole > 0 {
		mulByNEON(unsafe.SliceData(dst), unsafe.SliceData(a), whole)
	}
	k.portable.mulBy(dst[whole:], a[whole:])
}

func (k neon) scale(dst []float32 /* [n] */, s float32) {
	whole := len(dst) / lanes * lanes
	if whole > 0 {
		scaleNEON(unsafe.SliceData(dst), whole, s)
	}
	k.portable.scale(dst[whole:], s)
}

func (k neon) norm(dst, x, weight []float32 /* [n] */, scale, offset float32) {
	whole := len(dst) / lanes * lanes
	if whole > 0 {
		normNEON(unsafe.SliceData(dst), unsafe.SliceData(x), unsafe.SliceData(weight), whole, scale, offset)
	}
	k.portable.norm(dst[whole:], x[whole:], weight[whole:], scale, offset)
}

func (k neon) addScaled(dst, a []float32 /* [n] */, s float32) {
	whole := len(dst) / lanes * lanes
	if whole > 0 {
		addScaledNEON(unsafe.SliceData(dst), unsafe.SliceData(a), whole, s)
	}
	k.portable.addScaled(dst[whole:], a[whole:], s)
}

func (k neon) addProduct(dst, a, b []float32 /* [n] */) {
	whole := len(dst) / lanes * lanes
	if whole > 0 {
		addProductNEON(unsafe.SliceData(dst), unsafe.SliceData(a), unsafe.SliceData(b), whole)
	}
	k.portable.addProduct(dst[whole:], a[whole:], b[whole:])
}

func (k neon) clamp(x []float32 /* [n] */, low, high, offset, factor float32) {
	whole := len(x) / lanes * lanes
	if whole > 0 {
		clampNEON(unsafe.SliceData(x), whole, low, high, offset, factor)
	}
	k.portable.clamp(x[whole:], low, high, offset, factor)
}
