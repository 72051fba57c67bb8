//go:build !noasm

package tiled

import (
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

//go:noescape
func lowIQ2XXSAVX2(a *lowArgs)

//go:noescape
func lowIQ2XSAVX2(a *lowArgs)

//go:noescape
func lowIQ2SAVX2(a *lowArgs)

//go:noescape
func lowIQ3XXSAVX2(a *lowArgs)

//go:noescape
func lowIQ3SAVX2(a *lowArgs)

//go:noescape
func lowNVFP4AVX2(a *lowArgs)

//go:noescape
func lowTQ2AVX2(a *lowArgs)

//go:noescape
func lowIQ1SAVX2(a *lowArgs)

//go:noescape
func lowIQ1MAVX2(a *lowArgs)

//go:noescape
func lowTQ1AVX2(a *lowArgs)

//go:noescape
func lowQ1AVX2(a *lowArgs)

//go:noescape
func lowQ2AVX2(a *lowArgs)

// avx2Low are the decoders of low-bit formats; their code books are points.
var avx2Low = map[quant.Type]lowKernel{
	quant.IQ2_XXS: {decode: lowIQ2XXSAVX2, book: (*byte)(unsafe.Pointer(&points.iq2xxs))},
	quant.IQ2_XS:  {decode: lowIQ2XSAVX2, book: (*byte)(unsafe.Pointer(&points.iq2xs))},
	quant.IQ2_S:   {decode: lowIQ2SAVX2, book: (*byte)(unsafe.Pointer(&points.iq2s))},
	quant.IQ3_XXS: {decode: lowIQ3XXSAVX2, book: (*byte)(unsafe.Pointer(&points.iq3xxs))},
	quant.IQ3_S:   {decode: lowIQ3SAVX2, book: (*byte)(unsafe.Pointer(&points.iq3s))},
	quant.NVFP4:   {decode: lowNVFP4AVX2},
	quant.IQ1_S:   {decode: lowIQ1SAVX2, book: (*byte)(unsafe.Pointer(&points.iq1))},
	quant.IQ1_M:   {decode: lowIQ1MAVX2, book: (*byte)(unsafe.Pointer(&points.iq1))},
	quant.TQ2_0:   {decode: lowTQ2AVX2},
	quant.TQ1_0:   {decode: lowTQ1AVX2},
	quant.Q1_0:    {decode: lowQ1AVX2},
	quant.Q2_0:    {decode: lowQ2AVX2},
}
