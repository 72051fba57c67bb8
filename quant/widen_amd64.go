//go:build !noasm

package quant

//go:noescape
func widenAVX512(dst *float32, src *int8, scale float32, n int)

//go:noescape
func widenAVX2(dst *float32, src *int8, scale float32, n int)

func (k avx512) widen(dst []float32, src []int8, scale float32) {
	whole := len(src) &^ 15
	if whole > 0 {
		widenAVX512(&dst[0], &src[0], scale, whole)
	}
	k.portable.widen(dst[whole:], src[whole:], scale)
}

func (k avx2) widen(dst []float32, src []int8, scale float32) {
	whole := len(src) &^ 7
	if whole > 0 {
		widenAVX2(&dst[0], &src[0], scale, whole)
	}
	k.portable.widen(dst[whole:], src[whole:], scale)
}
