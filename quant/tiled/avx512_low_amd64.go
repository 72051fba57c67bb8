//go:build !noasm

package tiled

import (
	"golang.org/x/sys/cpu"

	"github.com/llmrun/llmrun/quant"
)

// bookOf returns a code book as bytes of four fields: of 2 bits in IQ2, those of the first four
// coordinates of all points and then those of the others; in IQ3 the low 2 bits of fields and then
// their third bits. Formats without one have none.
func bookOf(t quant.Type) *byte {
	if quant.GridOf(t) == nil {
		return nil
	}
	fields := quant.GridOf(t).Fields
	book := make([]byte, 2*len(fields))
	for i, f := range fields {
		low, high := byte(f), byte(f>>8)
		if quant.GridOf(t).Coordinates == 4 {
			low, high = 0, 0
			for j := range 4 {
				low |= byte(f>>(4*j)&3) << (2 * j)
				high |= byte(f>>(4*j+2)&1) << j
			}
		}
		book[i], book[len(fields)+i] = low, high
	}
	return &book[0]
}

//go:noescape
func lowIQ1SAVX512(a *lowArgs)

//go:noescape
func gemvIQ1SAVX512(a *smallArgs)

//go:noescape
func lowIQ1MAVX512(a *lowArgs)

//go:noescape
func gemvIQ1MAVX512(a *smallArgs)

//go:noescape
func lowIQ2XXSAVX512(a *lowArgs)

//go:noescape
func gemvIQ2XXSAVX512(a *smallArgs)

//go:noescape
func lowIQ2XSAVX512(a *lowArgs)

//go:noescape
func gemvIQ2XSAVX512(a *smallArgs)

//go:noescape
func lowIQ2SAVX512(a *lowArgs)

//go:noescape
func gemvIQ2SAVX512(a *smallArgs)

//go:noescape
func lowIQ3XXSAVX512(a *lowArgs)

//go:noescape
func gemvIQ3XXSAVX512(a *smallArgs)

//go:noescape
func lowIQ3SAVX512(a *lowArgs)

//go:noescape
func gemvIQ3SAVX512(a *smallArgs)

//go:noescape
func lowNVFP4AVX512(a *lowArgs)

//go:noescape
func gemvNVFP4AVX512(a *smallArgs)

//go:noescape
func lowTQ2AVX512(a *lowArgs)

//go:noescape
func gemvTQ2AVX512(a *smallArgs)

//go:noescape
func lowQ2AVX512(a *lowArgs)

//go:noescape
func gemvQ2AVX512(a *smallArgs)

//go:noescape
func lowQ1AVX512(a *lowArgs)

//go:noescape
func gemvQ1AVX512(a *smallArgs)

//go:noescape
func lowTQ1AVX512(a *lowArgs)

//go:noescape
func gemvTQ1AVX512(a *smallArgs)

// avx512Low are the kernels of low-bit formats, all with VBMI.
var avx512Low = map[quant.Type]lowKernel{
	quant.IQ1_S:   {decode: lowIQ1SAVX512, gemv: gemvIQ1SAVX512, book: bookOf(quant.IQ1_S), vbmi: true},
	quant.IQ1_M:   {decode: lowIQ1MAVX512, gemv: gemvIQ1MAVX512, book: bookOf(quant.IQ1_M), vbmi: true},
	quant.IQ2_XXS: {decode: lowIQ2XXSAVX512, gemv: gemvIQ2XXSAVX512, book: bookOf(quant.IQ2_XXS), vbmi: true},
	quant.IQ2_XS:  {decode: lowIQ2XSAVX512, gemv: gemvIQ2XSAVX512, book: bookOf(quant.IQ2_XS), vbmi: true},
	quant.IQ2_S:   {decode: lowIQ2SAVX512, gemv: gemvIQ2SAVX512, book: bookOf(quant.IQ2_S), vbmi: true},
	quant.IQ3_XXS: {decode: lowIQ3XXSAVX512, gemv: gemvIQ3XXSAVX512, book: bookOf(quant.IQ3_XXS), vbmi: true},
	quant.IQ3_S:   {decode: lowIQ3SAVX512, gemv: gemvIQ3SAVX512, book: bookOf(quant.IQ3_S), vbmi: true},
	quant.NVFP4:   {decode: lowNVFP4AVX512, gemv: gemvNVFP4AVX512, book: bookOf(quant.NVFP4), vbmi: true},
	quant.TQ2_0:   {decode: lowTQ2AVX512, gemv: gemvTQ2AVX512, book: bookOf(quant.TQ2_0), vbmi: true},
	quant.Q2_0:    {decode: lowQ2AVX512, gemv: gemvQ2AVX512, book: bookOf(quant.Q2_0), vbmi: true},
	quant.Q1_0:    {decode: lowQ1AVX512, gemv: gemvQ1AVX512, book: bookOf(quant.Q1_0), vbmi: true},
	quant.TQ1_0:   {decode: lowTQ1AVX512, gemv: gemvTQ1AVX512, book: bookOf(quant.TQ1_0), vbmi: true},
}

// lowKernel returns the kernel of a format. Processors without VBMI use AVX2's.
func (d *decoders) lowKernel(t quant.Type) lowKernel {
	kernel := d.low[t]
	if kernel.vbmi && !cpu.X86.HasAVX512VBMI {
		return avx2Low[t]
	}
	return kernel
}

// mulLow multiplies tiles of low-bit formats with one token.
func (a *smallArgs) mulLow(kernel lowKernel) bool {
	if kernel.gemv == nil || a.width > 1 {
		return false
	}
	a.book = kernel.book
	a.each(kernel.gemv)
	return true
}
